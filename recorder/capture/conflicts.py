"""Leaves the GPU's tracing to another profiler while one runs: two at once lose events, or worse.

PyTorch's profiler is seen as it starts, before it takes CUPTI's callbacks; TensorFlow's within half a second.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from tracelake.recorder.log import once

REASON = "another_profiler"
_MARK = "_tracelake_yields"


class Pausable(Protocol):
    name: str

    def pause(self) -> object:
        """Leave the tool to others."""

    def resume(self) -> object:
        """Take it back; False where another one still holds it."""


class Conflicts:
    """Pauses and resumes the capture of open windows. Nothing here raises."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._capture: Pausable | None = None
        self._paused_ns: int | None = None

    def watch(self, capture: Pausable) -> None:
        """A window opens: from now on the capture is paused as soon as another profiler starts."""
        global _watching
        try:
            _wrap_torch()
        except Exception as error:  # noqa: BLE001 -- a torch of an unknown version
            once("conflicts", "torch.profiler is not seen here, and may take our GPU events: %s", error)
        with self._lock:
            self._capture = capture
        _watching = self
        if _is_busy(capture):
            self.pause()

    def poll(self, capture: Pausable) -> dict[str, Any] | None:
        """Twice a second while a window is open: the gap in the GPU events that has ended since, if one has."""
        self.watch(capture)
        return None if _is_busy(capture) else self._resume(capture)

    def finish(self, capture: Pausable) -> dict[str, Any] | None:
        """The window has ended, and its capture is stopped: the gap that is open, if one is.

        The capture stays as it is, paused or not; a later window asks again.
        """
        with self._lock:
            self._capture = None
            gap = self._gap()
        left: Callable[[], dict[str, Any] | None] | None = getattr(capture, "take_gap", None)
        return left() if gap is None and left is not None else gap

    def pause(self) -> None:
        """Another profiler is about to start. The caller waits until the tool is free."""
        with self._lock:
            capture = self._capture
            if capture is None or self._paused_ns is not None:
                return
            self._paused_ns = time.monotonic_ns()
            try:
                capture.pause()
            except Exception as error:  # noqa: BLE001 -- the other profiler must start in any case
                once("pause", "GPU events could not be paused for another profiler: %s", error)

    def _resume(self, capture: Pausable) -> dict[str, Any] | None:
        with self._lock:
            if self._paused_ns is None:
                return None
            try:
                if capture.resume() is False:
                    return None
            except Exception as error:  # noqa: BLE001 -- the job goes on, without GPU events
                once("resume", "GPU events did not come back after another profiler: %s", error)
            return self._gap()

    def _gap(self) -> dict[str, Any] | None:
        start_ns, self._paused_ns = self._paused_ns, None
        return None if start_ns is None else {"start_ns": start_ns, "end_ns": time.monotonic_ns(), "reason": REASON}


_watching: Conflicts | None = None
# torch's profilers that have been prepared and not stopped; one that is thrown away counts no longer.
_sessions: weakref.WeakSet[Any] = weakref.WeakSet()


def _in_child() -> None:
    global _watching
    _watching = None


os.register_at_fork(after_in_child=_in_child)


def _is_busy(capture: Pausable) -> bool:
    """Whether another profiler runs, as far as it can be seen."""
    try:
        return bool(_sessions) or _is_torch_on(capture) or _is_tensorflow_on()
    except Exception as error:  # noqa: BLE001 -- private parts of frameworks
        once("conflicts", "other profilers are not seen here: %s", error)
        return False


def _is_torch_on(capture: Pausable) -> bool:
    """Torch answers for the calling thread and for profilers of all threads; our own use of it does not count."""
    autograd = sys.modules.get("torch.autograd")
    is_on = getattr(autograd, "_profiler_enabled", None)
    return capture.name != "kineto" and is_on is not None and bool(is_on())


def _is_tensorflow_on() -> bool:
    module = sys.modules.get("tensorflow.python.profiler.profiler_v2")
    return getattr(module, "_profiler", None) is not None


def _wrap_torch() -> None:
    """See each use of torch's profiler, by schedule too: torch.profiler does all of it by this class."""
    module: Any = sys.modules.get("torch.autograd.profiler")
    kind = getattr(module, "profile", None)
    if kind is None or getattr(kind, _MARK, False):
        return
    setattr(kind, _MARK, True)
    for name in ("_prepare_trace", "_start_trace", "__enter__"):
        if hasattr(kind, name):
            setattr(kind, name, _beginning(getattr(kind, name)))
    kind.__exit__ = _ending(kind.__exit__)


def _beginning(inner: Any) -> Any:
    @functools.wraps(inner)
    def begin(self: Any, *arguments: Any, **named: Any) -> Any:
        if getattr(self, "enabled", True):
            _sessions.add(self)
            if _watching is not None:
                _watching.pause()
        try:
            return inner(self, *arguments, **named)
        except BaseException:
            _sessions.discard(self)
            raise

    return begin


def _ending(inner: Any) -> Any:
    @functools.wraps(inner)
    def end(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return inner(self, *arguments, **named)
        finally:
            _sessions.discard(self)

    return end
