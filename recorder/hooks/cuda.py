"""The moment before CUDA starts in this process: early enough for the tool, late enough for those who fork."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from tracelake.recorder.hooks.importing import after_import
from tracelake.recorder.log import once

# Open only where CUDA runs (on WSL: dxg); reading metrics opens others.
_DEVICES = ("/dev/nvidia-uvm", "/dev/dxg")


class CudaWatch:
    """Calls `callback` once, when CUDA starts here. `poll` belongs into a thread that runs twice a second or so."""

    def __init__(self, callback: Callable[[], object], *, proc: Path = Path("/proc/self")) -> None:
        self._callback = callback
        self._proc = proc
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._is_done = False

    def fire(self) -> None:
        """Call it, unless it was called, or this is a forked child. Raises nothing."""
        # A child may find the lock taken for ever by a thread that it does not have.
        if self._is_done or os.getpid() != self._process_id:
            return
        with self._lock:
            if self._is_done:
                return
            self._is_done = True
        try:
            self._callback()
        except Exception as error:  # noqa: BLE001 -- CUDA must start also where we cannot follow
            once("cuda_start", "GPU events: %s: %s", type(error).__name__, error)

    def cancel(self) -> None:
        self._is_done = True

    def poll(self) -> bool:
        """Look whether CUDA has started without torch; True once there is nothing more to look for."""
        if not self._is_done and (self._has_device() or ("torch" not in sys.modules and self._has_library())):
            self.fire()
        return self._is_done

    def _has_device(self) -> bool:
        try:
            files = list((self._proc / "fd").iterdir())
        except OSError:
            return False
        for file in files:
            try:
                if str(file.readlink()) in _DEVICES:
                    return True
            except OSError:
                continue
        return False

    def _has_library(self) -> bool:
        """libcuda is loaded. Torch brings it along long before it is used, so it says nothing there."""
        try:
            return "/libcuda.so" in (self._proc / "maps").read_text(errors="surrogateescape")
        except OSError:
            return False


def when_cuda_starts(callback: Callable[[], object]) -> CudaWatch:
    """Call `callback` just before torch starts CUDA, at once where CUDA runs already, or when `poll` finds it so."""
    watch = CudaWatch(callback)
    if not watch.poll():
        after_import("torch", lambda torch: _hook_torch(torch, watch))
    return watch


def _hook_torch(torch: ModuleType, watch: CudaWatch) -> None:
    cuda: Any = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        watch.fire()
        return
    # Every way into CUDA, from Python or C++, comes through this one function; torch built without CUDA has none.
    native: Any = torch._C
    inner = getattr(native, "_cuda_init", None)
    if inner is None:
        return

    def _cuda_init(*arguments: Any) -> Any:
        if native._cuda_init is _cuda_init:
            native._cuda_init = inner
        watch.fire()
        return inner(*arguments)

    native._cuda_init = _cuda_init
