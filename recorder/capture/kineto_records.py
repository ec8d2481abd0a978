"""Events of PyTorch's profiler as the records that the shim would have written.

Torch names GPU work in words ("Memcpy HtoD (Pinned -> Device)"); the numbers are CUPTI's. What torch does not tell is
0: sizes and grids before it could show an event's metadata.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tracelake.recorder.capture.calls import DRIVER, RUNTIME
from tracelake.recorder.spool import RECORD_BYTES

MEMCPY, MEMSET, KIND_DRIVER, KIND_RUNTIME, KERNEL, OVERHEAD, SYNC = 1, 2, 4, 5, 10, 17, 38
GROUPS = {KERNEL: "kernel", MEMCPY: "memop", MEMSET: "memop", SYNC: "sync", KIND_DRIVER: "api", KIND_RUNTIME: "api",
          OVERHEAD: "overhead", 0: "other"}  # fmt: skip
_RECORD = struct.Struct("<BBHIQQIIII")
assert _RECORD.size == RECORD_BYTES
_NO_STREAM = 0xFFFF
_COPIES = {
    "HtoD": 1,
    "DtoH": 2,
    "HtoA": 3,
    "AtoH": 4,
    "AtoA": 5,
    "AtoD": 6,
    "DtoA": 7,
    "DtoD": 8,
    "HtoH": 9,
    "PtoP": 10,
}
_MEMORIES = {"Pageable": 1, "Pinned": 2, "Device": 3, "Array": 4}
_COPY = re.compile(r"Memcpy (\w+)(?: \((\w+) -> (\w+)\))?")
_SYNCS = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}
_TYPES = {"kernel": KERNEL, "gpu_memcpy": MEMCPY, "gpu_memset": MEMSET, "cuda_runtime": KIND_RUNTIME,
          "cuda_driver": KIND_DRIVER, "cuda_sync": SYNC, "overhead": OVERHEAD}  # fmt: skip


def _calls() -> dict[str, tuple[int, int]]:
    """Each recorded call by the name that torch shows: without version, and one number for all of its variants."""
    found: dict[str, tuple[int, int]] = {}
    for kind, calls in ((KIND_RUNTIME, RUNTIME), (KIND_DRIVER, DRIVER)):
        for number, name in calls.items():
            plain = re.sub(r"_v\d{4,}$", "", name).lstrip("_")
            found.setdefault(plain, (kind, number))
            found.setdefault(re.sub(r"_v\d$", "", plain), (kind, number))
    return found


CALLS = _calls()


class Record(NamedTuple):
    """One event, times on the Unix clock; `text` is the kernel's name."""

    kind: int
    device: int
    stream: int
    name: int
    text: str
    start_ns: int
    duration_ns: int
    correlation: int
    a: int = 0
    b: int = 0
    c: int = 0

    def packed(self, name: int, clock_offset_ns: int) -> bytes:
        """For the spool, on the monotonic clock."""
        start_ns = max(0, self.start_ns - clock_offset_ns)
        return _RECORD.pack(
            self.kind, self.device & 0xFF, self.stream, name, start_ns, max(0, self.duration_ns),
            self.correlation & 0xFFFFFFFF, self.a & 0xFFFFFFFF, self.b & 0xFFFFFFFF, self.c & 0xFFFFFFFF,
        )  # fmt: skip


def record_of(event: Any, thread_of: Callable[[int], int] = int) -> Record | None:
    """One of torch's events, of any version; None for what is not recorded (CPU operators, annotations, other calls).

    `thread_of` turns the system's thread id into the low half of its pthread id, as CUPTI counts threads.
    """
    name: str = event.name()
    kind = _kind(event, name)
    if kind is None:
        return None
    start_ns, duration_ns = _times(event)
    correlation = int(event.correlation_id())
    if kind in (KIND_RUNTIME, KIND_DRIVER):
        _, number = CALLS[name.lstrip("_")]
        thread = thread_of(int(event.device_resource_id()))
        return Record(kind, 0, _NO_STREAM, number, "", start_ns, duration_ns, correlation, thread)
    number, numbers = _details(kind, name, _metadata(event))
    stream = int(event.device_resource_id())
    return Record(
        kind, max(0, int(event.device_index())), stream if 0 <= stream < _NO_STREAM else _NO_STREAM, number,
        name if kind == KERNEL else "", start_ns, duration_ns, correlation, *numbers,
    )  # fmt: skip


def _kind(event: Any, name: str) -> int | None:
    call = CALLS.get(name.lstrip("_"))
    kind = _TYPES.get(event.activity_type()) if hasattr(event, "activity_type") else _guessed(event, name, call)
    if kind in (KIND_RUNTIME, KIND_DRIVER):
        return call[0] if call else None
    return kind


def _guessed(event: Any, name: str, call: tuple[int, int] | None) -> int | None:
    """Before torch told an event's type: by where it ran and how it is called."""
    if call is not None:
        return call[0]
    if "CUDA" not in str(event.device_type()) or getattr(event, "is_user_annotation", bool)():
        return None
    if name in _SYNCS:
        return SYNC
    return MEMCPY if name.startswith("Memcpy ") else MEMSET if name.startswith("Memset") else KERNEL


def _times(event: Any) -> tuple[int, int]:
    """Start and duration in nanoseconds; until torch 2.3 it counts in microseconds."""
    if hasattr(event, "start_ns"):
        return int(event.start_ns()), int(event.duration_ns())
    return int(event.start_us()) * 1000, int(event.duration_us()) * 1000


def _metadata(event: Any) -> Mapping[str, Any]:
    """{"grid": [x, y, z], "bytes": n, …}, as far as this torch shows it. Its text is the inside of a JSON object."""
    if not hasattr(event, "metadata_json"):
        return {}
    text = event.metadata_json().strip()
    try:
        return dict(json.loads(text if text.startswith("{") else f"{{{text}}}"))
    except ValueError:
        return {}


def _details(kind: int, name: str, metadata: Mapping[str, Any]) -> tuple[int, tuple[int, int, int]]:
    """Number for `name`, and a, b, c of the record."""
    if kind == KERNEL:
        grid, block = metadata.get("grid"), metadata.get("block")
        return 0, (math.prod(grid) if grid else 0, math.prod(block) if block else 0, 0)
    size = int(metadata.get("bytes", 0))
    low, high = size & 0xFFFFFFFF, size >> 32
    if kind == MEMCPY:
        match = _COPY.match(name)
        source, destination = (_MEMORIES.get(match[at] or "", 0) if match else 0 for at in (2, 3))
        return _COPIES.get(match[1], 0) if match else 0, (low, high, source | destination << 8)
    if kind == SYNC:
        return _SYNCS.get(name, 0), (0, 0, 0)
    return 0, (low, high, 0) if kind == MEMSET else (0, 0, 0)
