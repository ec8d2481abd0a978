"""Kineto events (PyTorch profiler, old and new; CUDA, ROCm and MTIA) sorted into raw kinds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from tracelake.recorder.importers import columns as to
from tracelake.recorder.importers.events import Args, Batch, Event, Loss
from tracelake.recorder.segments import Staging
from tracelake.schemas.apis import launch_or_sync

# Category of a complete event -> what it is. Old files (2020-2021) capitalize theirs.
_KERNEL, _MEMCPY, _MEMSET, _RUNTIME, _MARKER, _HOST, _DEVICE, _OPERATOR, _PYTHON, _MTIA = range(10)
CATEGORIES = {
    "kernel": _KERNEL, "Kernel": _KERNEL,
    "gpu_memcpy": _MEMCPY, "Memcpy": _MEMCPY,
    "gpu_memset": _MEMSET, "Memset": _MEMSET,
    "cuda_runtime": _RUNTIME, "Runtime": _RUNTIME, "cuda_driver": _RUNTIME, "mtia_runtime": _RUNTIME,
    "hip_runtime": _RUNTIME, "xpu_runtime": _RUNTIME,
    "cuda_sync": _MARKER,
    "user_annotation": _HOST, "gpu_user_annotation": _DEVICE,
    "cpu_op": _OPERATOR, "Operator": _OPERATOR,
    "python_function": _PYTHON,
    "mtia_ccp_events": _MTIA,
}  # fmt: skip
_HOST_KINDS = frozenset({_RUNTIME, _HOST, _OPERATOR, _PYTHON})
_EMPTY = Args()


@dataclass
class Span:
    """First start and last end seen, in the file's own clock."""

    start: int | None = None
    end: int | None = None

    def add(self, start: int, end: int) -> None:
        self.start = start if self.start is None else min(self.start, start)
        self.end = end if self.end is None else max(self.end, end)


@dataclass
class Sorted:
    """What a pass over a file found, beside the staged rows."""

    skipped: Counter[str] = field(default_factory=Counter)
    losses: list[Loss] = field(default_factory=list)
    host: dict[int | None, Span] = field(default_factory=dict)
    device: Span = field(default_factory=Span)
    processes: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)


class KinetoSorter:
    """Takes batches of events and stages their rows by raw kind. Operators are left out where not wanted."""

    def __init__(self, staging: Staging, *, operators: bool = True) -> None:
        self.staging, self.operators = staging, operators
        self.found = Sorted()

    def add(self, batch: Batch) -> None:
        """Sort one batch. Impossible times become losses with their place in the file."""
        buckets: dict[str, tuple[list[Event], list[int], list[str]]] = {}
        phases: Counter[tuple[str | None, str]] = Counter()
        for index, event in enumerate(batch.events):
            if event.ph != "X":  # flows, metadata, instants: often half of a file
                phases[event.cat, event.ph] += 1
                continue
            kind, label = self._kind(event)
            if not kind:
                self.found.skipped[label] += 1
                continue
            bucket = buckets.get(kind)
            if bucket is None:
                bucket = buckets[kind] = ([], [], [])
            bucket[0].append(event)
            bucket[1].append(index)
            bucket[2].append(label)
        self.found.skipped.update({f"{cat or '-'}:{phase}": count for (cat, phase), count in phases.items()})
        for kind, (events, indices, labels) in buckets.items():
            self._stage(batch, kind, events, indices, labels)

    def _kind(self, event: Event) -> tuple[str, str]:
        """(raw kind or "host" for events that only count in the window, label); an empty kind is skipped."""
        cat = event.cat
        what = CATEGORIES.get(cat) if cat else None
        if what is None:
            return "", cat or "-"
        if what == _OPERATOR:
            if cat == "Operator" and "#" in event.name:
                return "annotation", "host"
            return ("operator" if self.operators else "host"), cat or ""
        if what == _RUNTIME:
            found = launch_or_sync(event.name)
            return found or ("host", f"{cat}")
        if what == _MTIA:
            return ("memop", "memcpy") if event.name.startswith("dma_") else ("kernel", "")
        return _PLAIN[what]

    def _stage(self, batch: Batch, kind: str, events: list[Event], indices: list[int], labels: list[str]) -> None:
        start = to.exact_ns([event.ts for event in events])
        duration = to.exact_ns([event.dur for event in events])
        reasons = to.impossible(start, duration)
        if reasons.null_count < len(reasons):
            keep = [reason is None for reason in reasons.to_pylist()]
            self._set_aside(batch, indices, reasons.to_pylist())
            mask = pa.array(keep)
            start, duration = start.filter(mask), duration.filter(mask)
            events = [event for event, ok in zip(events, keep, strict=True) if ok]
            labels = [label for label, ok in zip(labels, keep, strict=True) if ok]
            if not events:
                return
        process = to.ids([event.pid for event in events])
        self._window(kind, events, process, start, duration)
        if kind == "host":
            self.found.skipped.update(labels)
            return
        first = self.found.counts[kind]
        self.found.counts[kind] += len(events)
        arrays = {
            "event_id": pa.array(range(first, first + len(events)), pa.int64()),
            "start_ns": start,
            "duration_ns": duration,
            "process": process,
            **_COLUMNS[kind](events, labels),
        }
        self.staging.add(kind, pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)))

    def _set_aside(self, batch: Batch, indices: Sequence[int], reasons: list[str | None]) -> None:
        for index, reason in zip(indices, reasons, strict=True):
            if reason:
                offset, length = batch.span(index)
                event = batch.events[index]
                excerpt = f"{event.name} ts={bytes(event.ts).decode()} dur={bytes(event.dur).decode()}".encode()
                self.found.losses.append(Loss(offset, length, batch.row(index), 1, reason, excerpt[:200]))

    def _window(
        self, kind: str, events: list[Event], process: pa.Array, start: pa.Int64Array, duration: pa.Int64Array
    ) -> None:
        """Stretch the window over host events (per process) and device events; markers stretch nothing."""
        end = pc.add(start, duration)
        if kind in ("kernel", "memop"):
            self.found.device.add(pc.min(start).as_py(), pc.max(end).as_py())
            return
        rows = pa.table({"process": process, "start": start, "end": end})
        categories = [CATEGORIES[event.cat or ""] for event in events]
        if kind in ("sync", "annotation"):  # markers and device-side copies stand among them
            rows = rows.filter(pa.array([category in _HOST_KINDS for category in categories]))
        spans = rows.group_by("process").aggregate([("start", "min"), ("end", "max")])
        for span in spans.to_pylist():
            self.found.host.setdefault(span["process"], Span()).add(span["start_min"], span["end_max"])
        if kind == "host":  # of these only operators (left out on request) name a process
            rows = rows.filter(pa.array([category == _OPERATOR for category in categories]))
        self.found.processes.update(p for p in pc.unique(rows["process"]).to_pylist() if p is not None)


_PLAIN = {
    _KERNEL: ("kernel", ""),
    _MEMCPY: ("memop", "memcpy"),
    _MEMSET: ("memop", "memset"),
    _MARKER: ("sync", ""),
    _HOST: ("annotation", "host"),
    _DEVICE: ("annotation", "device"),
    _PYTHON: ("host", "python_function"),
}


def _names(values: list[str]) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode()


def _texts(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def _on_device(events: list[Event]) -> dict[str, pa.Array]:
    args = [event.args or _EMPTY for event in events]
    device = [a.device if a.device is not None else e.pid for a, e in zip(args, events, strict=True)]
    stream = [a.stream if a.stream is not None else e.tid for a, e in zip(args, events, strict=True)]
    return {
        "device_index": to.ids(device),
        "stream_id": to.ids(stream),
        "correlation_id": to.ids([a.correlation for a in args]),
    }


def _kernel(events: list[Event], labels: list[str]) -> dict[str, pa.Array]:
    args = [event.args or _EMPTY for event in events]
    dtypes = [a.dtype if a.collective else None for a in args]
    return {
        "name": _names([event.name for event in events]),
        **_on_device(events),
        "grid_count": pa.array([to.product(a.grid) for a in args], pa.int64()),
        "block_count": pa.array([to.product(a.block) for a in args], pa.int64()),
        "occupancy_ratio": to.ratios([a.occupancy for a in args]),
        "collective_name": _texts([a.collective for a in args]),
        "dtype": _texts(dtypes),
        "message_bytes": pa.array([to.message_bytes(a.in_elements, a.dtype) for a in args], pa.int64()),
        "group_id": _texts([None if a.group is None else str(a.group) for a in args]),
        "group_size_count": to.ids([a.group_size for a in args]),
        "sequence": to.ids([a.sequence for a in args]),
    }


_DIRECTION = re.compile(
    r"(HtoD|DtoH|DtoD|PtoP|HtoH)|(HOST|DEVICE)_TO_(HOST|DEVICE)|(?:Copy)?(Host|Device)To(Host|Device)"
)


@lru_cache(maxsize=4096)
def direction(text: str) -> str | None:
    """htod, dtoh, dtod, ptop or htoh out of a copy's name or kind."""
    found = _DIRECTION.search(text)
    if not found:
        return None
    if found[1]:
        return found[1].lower()
    source, target = (found[2], found[3]) if found[2] else (found[4], found[5])
    return f"{source[0]}to{target[0]}".lower()


@lru_cache(maxsize=4096)
def memory_kind(name: str) -> str | None:
    """pageable or pinned, where a copy's name says which host memory it touches."""
    return next((kind for kind in ("pageable", "pinned") if kind in name.lower()), None)


def _memop(events: list[Event], labels: list[str]) -> dict[str, pa.Array]:
    args = [event.args or _EMPTY for event in events]
    directions = [
        None if label == "memset" else direction(e.name) or direction(f"{a.kind or ''} {a.direction or ''}")
        for e, a, label in zip(events, args, labels, strict=True)
    ]
    return {
        "kind": _texts(labels),
        "direction": _texts(directions),
        "memory_kind": _texts([memory_kind(event.name) for event in events]),
        "bytes": to.ids([a.bytes if a.bytes is not None else a.size for a in args]),
        **_on_device(events),
    }


def _launch(events: list[Event], labels: list[str]) -> dict[str, pa.Array]:
    return {
        "api_name": _names(labels),
        "thread_id": to.ids([event.tid for event in events]),
        "correlation_id": to.ids([(event.args or _EMPTY).correlation for event in events]),
    }


def _sync(events: list[Event], labels: list[str]) -> dict[str, pa.Array]:
    args = [event.args or _EMPTY for event in events]
    kinds = [
        label or re.sub(r"\W+", "_", (a.sync_kind or e.name).strip().lower())
        for e, a, label in zip(events, args, labels, strict=True)
    ]
    return {
        "kind": _texts(kinds),
        "thread_id": to.ids([event.tid if label else None for event, label in zip(events, labels, strict=True)]),
        "device_index": to.ids([None if label else a.device for a, label in zip(args, labels, strict=True)]),
        "stream_id": to.ids([a.stream for a in args]),
        "correlation_id": to.ids([a.correlation for a in args]),
    }


def _annotation(events: list[Event], labels: list[str]) -> dict[str, pa.Array]:
    on_device = [label == "device" for label in labels]
    place = _on_device(events)
    mask = pa.array(on_device)
    nothing = pa.nulls(len(events), pa.int64())
    return {
        "side": _texts(labels),
        "text": _names([event.name for event in events]),
        "thread_id": pc.if_else(mask, nothing, to.ids([event.tid for event in events])),
        "device_index": pc.if_else(mask, place["device_index"], nothing),
        "stream_id": pc.if_else(mask, place["stream_id"], nothing),
    }


_LONGEST_SHAPE = 512


def _operator(events: list[Event], labels: list[str]) -> dict[str, pa.Array]:
    args = [event.args or _EMPTY for event in events]
    shapes = [bytes(a.input_dims).decode(errors="replace") if 0 < len(bytes(a.input_dims)) <= _LONGEST_SHAPE else None
              for a in args]  # fmt: skip
    return {
        "name": _names([event.name for event in events]),
        "thread_id": to.ids([event.tid for event in events]),
        "dtype": _texts([to.tensor_type(bytes(a.input_types)) for a in args]),
        "shape": _texts(shapes),
    }


_COLUMNS: dict[str, Callable[[list[Event], list[str]], dict[str, pa.Array]]] = {
    "kernel": _kernel,
    "memop": _memop,
    "launch": _launch,
    "sync": _sync,
    "annotation": _annotation,
    "operator": _operator,
}
