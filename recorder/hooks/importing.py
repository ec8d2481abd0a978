"""Does something right after a module was imported, without importing it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tracelake.recorder.log import once

Action = Callable[[ModuleType], None]


def after_import(name: str, action: Action) -> None:
    """Call `action(module)` once `name` has been imported: now, where it has been. What it raises is said once."""
    module = sys.modules.get(name)
    if module is not None and not _is_half_done(module):
        _run(action, module)
        return
    _finder.waiting.setdefault(name, []).append(action)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _is_half_done(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _run(action: Action, module: ModuleType) -> None:
    try:
        action(module)
    except Exception as error:  # noqa: BLE001 -- a framework of an unknown version must work as without us
        once(f"hook {module.__name__}", "%s: steps or GPU start are not seen here (%s: %s)", module.__name__,
             type(error).__name__, error)  # fmt: skip


class _Finder(MetaPathFinder):
    """Stands first on sys.meta_path while something waits; lets the others find, and adds to how they execute."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Action]] = {}
        self._busy: set[tuple[int, str]] = set()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.waiting:
            return None
        # Other tools' finders ask all finders again, as this one does.
        turn = (threading.get_ident(), name)
        if turn in self._busy:
            return None
        self._busy.add(turn)
        try:
            spec = self._found_by_others(name, path, target)
        finally:
            self._busy.discard(turn)
        if spec is not None and spec.loader is not None:
            self._extend(spec.loader, name)
        return spec

    def _found_by_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if finder is not self and find is not None else None
            if spec is not None:
                return spec
        return None

    def _extend(self, loader: Any, name: str) -> None:
        """For one execution, on this loader alone; whoever looks at the loader later finds it as it was."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            self._done(name, module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            once(f"hook {name}", "%s: its loader %r takes no hook", name, loader)

    def _done(self, name: str, module: ModuleType) -> None:
        for action in self.waiting.pop(name, []):
            _run(action, module)
        if not self.waiting and self in sys.meta_path:
            sys.meta_path.remove(self)


_finder = _Finder()
