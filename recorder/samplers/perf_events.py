"""The kernel's performance counters: which there are, and how one is opened and read."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

_SYSCALLS = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTE_BYTES = 112
_VALUE_ENABLED_RUNNING = 1 | 2
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR, _THREADS_ONLY = 1 << 1, 1 << 5, 1 << 6, 1 << 35
_CLOSE_ON_EXEC = 8
_HARDWARE, _SOFTWARE, _CACHE, _RAW = 0, 1, 3, 4
_READ_MISS = 1 << 16
_REASONS = {
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.EMFILE: "too_many_open_files",
    errno.ENFILE: "too_many_open_files",
    errno.ENOSYS: "not_available",
    errno.ESRCH: "process_gone",
}


class Event(NamedTuple):
    """What is counted. `is_kernels` tells of those that happen in the kernel: user space alone would count none."""

    metric: str
    type: int
    config: int
    is_kernels: bool = False

    @property
    def is_hardware(self) -> bool:
        return self.type != _SOFTWARE


# The first must be one that every kernel has: it settles what is permitted.
SOFTWARE = (
    Event("task_clock", _SOFTWARE, 1),
    Event("page_faults", _SOFTWARE, 2),
    Event("context_switches", _SOFTWARE, 3, is_kernels=True),
    Event("cpu_migrations", _SOFTWARE, 4, is_kernels=True),
)
HARDWARE = (
    Event("cycles", _HARDWARE, 0),
    Event("instructions", _HARDWARE, 1),
    Event("reference_cycles", _HARDWARE, 9),
    Event("cache_references", _HARDWARE, 2),
    Event("cache_misses", _HARDWARE, 3),
    Event("branch_misses", _HARDWARE, 5),
    Event("dtlb_misses", _CACHE, 3 | _READ_MISS),
    Event("itlb_misses", _CACHE, 4 | _READ_MISS),
)


def raw_event(metric: str, code: str | Mapping[str, Any]) -> Event:
    """An event of the processor's manual: "r01c2" (hexadecimal) or {"type": 4, "config": 450}. ValueError otherwise."""
    if isinstance(code, Mapping):
        if not {"config"} <= set(code) <= {"type", "config"}:
            raise ValueError(f"{metric}: expected type and config, not {sorted(code)}")
        event = Event(metric, _integer(code.get("type", _RAW)), _integer(code["config"]))
    elif code.startswith("r"):
        event = Event(metric, _RAW, int(code[1:], 16))
    else:
        raise ValueError(f"{metric}: expected r and hexadecimal digits, not {code!r}")
    if not (0 <= event.type < 1 << 32 and 0 <= event.config < 1 << 64):
        raise ValueError(f"{metric}: type or config out of range")
    return event


def _integer(value: Any) -> int:
    return int(value, 0) if isinstance(value, str) else int(value)


def reason(error: OSError) -> str:
    """Why a counter could not be opened, as in the column `reason`."""
    return _REASONS.get(error.errno or 0, "not_supported")


class Counter:
    """One open event; `advance` gives what it counted since the last time."""

    __slots__ = ("_descriptor", "_last")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._last = (0, 0, 0)

    def advance(self) -> tuple[int, int, int]:
        """Counted, nanoseconds enabled, nanoseconds counting: the last two differ where events share a counter."""
        data = os.read(self._descriptor, 24)
        if len(data) < 24:
            return 0, 1, 0  # the kernel gave the event up
        now = struct.unpack("QQQ", data)
        before, self._last = self._last, now
        return now[0] - before[0], now[1] - before[1], now[2] - before[2]

    def close(self) -> None:
        os.close(self._descriptor)


class Opener:
    """Opens events of threads or of cores, and remembers what the kernel permitted."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.syscall.restype = ctypes.c_long
        self._is_settled = False
        self._threads_only = True
        self.is_user_only = False

    def thread(self, event: Event, thread_id: int) -> Counter:
        """Counts the thread and every thread that it starts from now on. OSError where the kernel refuses."""
        return self._open(event, thread_id, -1)

    def core(self, event: Event, core: int) -> Counter:
        """Counts all that runs on a core. OSError where the kernel refuses."""
        return self._open(event, -1, core)

    def _open(self, event: Event, thread_id: int, core: int) -> Counter:
        while True:
            if self.is_user_only and event.is_kernels:
                raise PermissionError(errno.EACCES, "happens in the kernel, which may not be counted")
            try:
                counter = Counter(self._call(event, thread_id, core))
            except OSError as error:
                refused = error.errno in (errno.EACCES, errno.EPERM)
                if self._is_settled or (refused and self.is_user_only):
                    raise
                if refused:
                    self.is_user_only = True
                elif error.errno == errno.EINVAL and self._threads_only:
                    self._threads_only = False  # before Linux 5.13: counts what is forked, too
                else:
                    raise
            else:
                self._is_settled = True
                return counter

    def _call(self, event: Event, thread_id: int, core: int) -> int:
        number = _SYSCALLS.get(platform.machine())
        if number is None:
            raise OSError(errno.ENOSYS, "no known system call on this processor")
        flags = _EXCLUDE_HYPERVISOR | (_EXCLUDE_KERNEL if self.is_user_only else 0)
        if core < 0:
            flags |= _INHERIT | (_THREADS_ONLY if self._threads_only else 0)
        head = struct.pack("IIQQQQQ", event.type, _ATTRIBUTE_BYTES, event.config, 0, 0, _VALUE_ENABLED_RUNNING, flags)
        attribute = ctypes.create_string_buffer(head, _ATTRIBUTE_BYTES)
        arguments = (ctypes.c_int(thread_id), ctypes.c_int(core), ctypes.c_int(-1), ctypes.c_ulong(_CLOSE_ON_EXEC))
        descriptor: int = self._libc.syscall(ctypes.c_long(number), attribute, *arguments)
        if descriptor < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return descriptor
