"""Steps as trainers tell them to their callbacks: Lightning, Hugging Face transformers, Keras."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tracelake.recorder.hooks.importing import after_import
from tracelake.recorder.hooks.steps import STEPS, Source
from tracelake.recorder.log import once

_MARK = "_tracelake_sees_steps"
_LIGHTNING = {
    "pytorch_lightning.trainer.trainer": "pytorch_lightning",
    "lightning.pytorch.trainer.trainer": "lightning.pytorch",
}
# Keras 3, Keras 2 from 2.13 on and before, Keras 2 beside a newer TensorFlow, and TensorFlow's own until 2.5.
_KERAS = (
    "keras.src.callbacks.callback_list",
    "keras.src.callbacks",
    "keras.callbacks",
    "tf_keras.src.callbacks",
    "tensorflow.python.keras.callbacks",
)


def find() -> None:
    """See the steps of trainers from now on, or from the import of their modules."""
    for name in _LIGHTNING:
        after_import(name, _hook_lightning)
    after_import("transformers.trainer_callback", _hook_transformers)
    for name in _KERAS:
        after_import(name, _hook_keras)


def _begin(number: int | None = None) -> None:
    STEPS.begin(Source.TRAINER, number=number)


def _end() -> None:
    STEPS.end(Source.TRAINER)


def _extend(
    owner: type, name: str, *, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None
) -> None:
    """Call `before` and `after` around a method, with its object. What they raise is said once."""
    inner = getattr(owner, name)
    if getattr(inner, _MARK, False):
        return

    @functools.wraps(inner)
    def extended(self: Any, *arguments: Any, **named: Any) -> Any:
        _try(before, self)
        result = inner(self, *arguments, **named)
        _try(after, self)
        return result

    setattr(extended, _MARK, True)
    setattr(owner, name, extended)


def _try(action: Callable[..., None] | None, owner: Any) -> None:
    if action is None:
        return
    try:
        action(owner)
    except Exception as error:  # noqa: BLE001 -- the training goes on without its steps
        once(f"steps {type(owner).__name__}", "steps of %s are not seen: %s", type(owner).__name__, error)


# Lightning ------------------------------------------------------------------------------------------------------------


def _hook_lightning(module: ModuleType) -> None:
    package = _LIGHTNING[module.__name__]
    # First in the list: Lightning wants those that save checkpoints last.
    _extend(module.Trainer, "__init__", after=lambda trainer: trainer.callbacks.insert(0, lightning_callback(package)))


def lightning_callback(package: str) -> Any:
    """A callback of that package. By way of this function it is also unpickled, in the workers of a spawn strategy."""
    return _lightning_class(package)()


@functools.cache
def _lightning_class(package: str) -> type:
    base: Any = sys.modules[package].Callback

    class TracelakeSteps(base):  # type: ignore[misc]
        def on_train_batch_start(self, *_: Any, **__: Any) -> None:
            _begin()

        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            _end()

        def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
            return lightning_callback, (package,)

    return TracelakeSteps


# Hugging Face transformers --------------------------------------------------------------------------------------------


def _hook_transformers(module: ModuleType) -> None:
    class TracelakeSteps(module.TrainerCallback):  # type: ignore[name-defined, misc]
        def on_step_begin(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            _begin(int(state.global_step))

        def on_step_end(self, *_: Any, **__: Any) -> None:
            _end()

    _extend(module.CallbackHandler, "__init__", after=lambda handler: handler.callbacks.insert(0, TracelakeSteps()))


# Keras ----------------------------------------------------------------------------------------------------------------


def _hook_keras(module: ModuleType) -> None:
    _extend(module.CallbackList, "on_train_batch_begin", before=lambda _: _begin())
    _extend(module.CallbackList, "on_train_batch_end", after=lambda _: _end())
