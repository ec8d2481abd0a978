"""Steps of a plain PyTorch loop: from the end of one `optimizer.step()` to the end of the next."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tracelake.recorder.hooks.importing import after_import
from tracelake.recorder.hooks.steps import STEPS, Source
from tracelake.recorder.log import once

_MARK = "_tracelake_sees_steps"
_hooked_modules: set[int] = set()


class Optimizers:
    """Follows the first optimizer that steps, as long as it lives: others (of a discriminator, say) are no steps."""

    def __init__(self, is_compiling: Callable[[], bool]) -> None:
        self._is_compiling = is_compiling
        self._first: weakref.ref[Any] | None = None
        self._count = 0

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """A step has ended. Raises nothing, and is invisible to torch.compile."""
        if self._is_compiling() or STEPS.source > Source.OPTIMIZER:
            return
        try:
            first = self._first() if self._first is not None else None
            if first is None:
                self._first = weakref.ref(optimizer)
            elif first is not optimizer:
                return
            self._count += 1
            STEPS.begin(Source.OPTIMIZER, number=self._count)
        except Exception as error:  # noqa: BLE001 -- the optimizer's step must go on
            once("optimizer", "steps of the optimizer are not seen: %s", error)


def find() -> None:
    """See the steps of optimizers from now on, or from the import of torch."""
    after_import("torch", _hook)


def _hook(torch: ModuleType) -> None:
    if id(torch) in _hooked_modules:
        return
    _hooked_modules.add(id(torch))
    optimizers = Optimizers(_compile_check(torch))
    # Not by torch.optim.optimizer: torch 1.13 deletes that name after import.
    register = _register_of(torch)
    if register is not None:
        register(optimizers.stepped)
    else:
        _wrap_classes(torch.optim.Optimizer, optimizers)


def _register_of(torch: ModuleType) -> Callable[[Any], Any] | None:
    """What torch 2 has for this: hooks after every optimizer's step."""
    import sys

    module = sys.modules.get("torch.optim.optimizer")
    register = getattr(module, "register_optimizer_step_post_hook", None)
    return register if callable(register) else None


def _compile_check(torch: ModuleType) -> Callable[[], bool]:
    """True while torch.compile traces, which takes the answer for a constant and so sees nothing of us."""
    check = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return check if callable(check) else lambda: False


def _wrap_classes(base: type, optimizers: Optimizers) -> None:
    """In torch 1: each class of optimizers, when the first one of it is made."""
    init = base.__init__  # type: ignore[misc]

    @functools.wraps(init)
    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        try:
            _wrap_step(type(self), optimizers)
        except Exception as error:  # noqa: BLE001 -- an optimizer that cannot be wrapped still works
            once("optimizer", "steps of %s are not seen: %s", type(self).__name__, error)

    base.__init__ = __init__  # type: ignore[misc]


def _wrap_step(kind: Any, optimizers: Optimizers) -> None:
    inner = kind.step
    if getattr(inner, _MARK, False):
        return

    # wraps() also copies the mark by which torch knows its own wrapper, so that it makes no second one.
    @functools.wraps(inner)
    def step(self: Any, *arguments: Any, **named: Any) -> Any:
        result = inner(self, *arguments, **named)
        optimizers.stepped(self)
        return result

    setattr(step, _MARK, True)
    kind.step = step
