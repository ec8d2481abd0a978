"""The calls of libtracelake_shim.so (recorder/native/shim.c), typed. Each call releases the interpreter lock."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tracelake.recorder.capture import Unavailable

MISSING = -2
"""This libcupti has no such function."""
DEAD = -3
"""In a forked child, or nothing is open."""
KINDS = 64
COLUMNS = 4
RECORD_BYTES = 40
STATS = (
    "drain_cpu_ns",
    "request_ns",
    "requested_buffers",
    "completed_buffers",
    "stolen_buffers",
    "foreign_buffers",
    "allocated_buffers",
    "error",
)

_INT, _U32, _U64, _TEXT = ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p
_CALLS: dict[str, tuple[object, list[object]]] = {
    "tl_load": (_INT, [_TEXT]),
    "tl_problem": (_TEXT, []),
    "tl_version": (_U32, []),
    "tl_subscribe": (_INT, []),
    "tl_unsubscribe": (_INT, []),
    "tl_register": (_INT, []),
    "tl_setup": (_INT, [ctypes.c_size_t, ctypes.c_size_t]),
    "tl_kind": (_INT, [_U32, _INT]),
    "tl_api": (_INT, [_U32, _U32, _INT]),
    "tl_api_name": (_TEXT, [_U32, _U32]),
    "tl_open": (_INT, [_TEXT, _U64, _U32, _U64]),
    "tl_flush": (_INT, [_INT, _U32]),
    "tl_close": (_INT, [_U32]),
    "tl_writing": (None, [_INT]),
    "tl_counts": (None, [ctypes.POINTER(_U64)]),
    "tl_position": (_U64, []),
    "tl_stats": (None, [ctypes.POINTER(_U64)]),
    "tl_parse": (ctypes.c_long, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_long]),
}


class Shim:
    """The loaded library; results are CUPTI's codes, errno for open, flush and close, or MISSING and DEAD."""

    def __init__(self, path: Path) -> None:
        """Raises Unavailable (no_shim) where it cannot be loaded."""
        try:
            self.library = ctypes.CDLL(str(path))
            for name, (result, arguments) in _CALLS.items():
                call = getattr(self.library, name)
                call.restype, call.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            text = f"{path} cannot be used ({error}); install a wheel of tracelake for this platform"
            raise Unavailable("no_shim", text) from error

    def load(self, path: str) -> str | None:
        """None, or what is wrong with this libcupti."""
        if self.library.tl_load(path.encode()) == 0:
            return None
        return str(self.library.tl_problem().decode(errors="replace")) or "out of memory"

    def version(self) -> int:
        return int(self.library.tl_version())

    def subscribe(self) -> int:
        return int(self.library.tl_subscribe())

    def unsubscribe(self) -> int:
        return int(self.library.tl_unsubscribe())

    def register(self) -> int:
        return int(self.library.tl_register())

    def setup(self, buffer_bytes: int, buffer_count: int) -> int:
        return int(self.library.tl_setup(buffer_bytes, buffer_count))

    def kind(self, kind: int, on: bool) -> int:
        return int(self.library.tl_kind(kind, on))

    def api(self, kind: int, cbid: int, on: bool) -> int:
        return int(self.library.tl_api(kind, cbid, on))

    def api_name(self, kind: int, cbid: int) -> str | None:
        name = self.library.tl_api_name(kind, cbid)
        return None if name is None else str(name.decode(errors="replace"))

    def open(self, folder: Path, file_bytes: int, period_ms: int, reserve_bytes: int) -> int:
        return int(self.library.tl_open(str(folder).encode(), file_bytes, period_ms, reserve_bytes))

    def flush(self, force: bool, timeout_ms: int) -> int:
        return int(self.library.tl_flush(force, timeout_ms))

    def close(self, timeout_ms: int) -> int:
        return int(self.library.tl_close(timeout_ms))

    def writing(self, on: bool) -> None:
        self.library.tl_writing(on)

    def counts(self) -> list[tuple[int, int, int, int]]:
        """(produced, dropped for memory, dropped for want of space, skipped) by CUPTI kind."""
        flat = (_U64 * (KINDS * COLUMNS))()
        self.library.tl_counts(flat)
        each = iter(flat)
        return list(zip(each, each, each, each, strict=True))

    def position(self) -> tuple[int, int]:
        packed = int(self.library.tl_position())
        return packed >> 40, packed & ((1 << 40) - 1)

    def stats(self) -> dict[str, int]:
        values = (_U64 * len(STATS))()
        self.library.tl_stats(values)
        return dict(zip(STATS, values, strict=True))
