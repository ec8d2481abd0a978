"""From rows to the tree of tracks: node, CPU and GPUs, process, device and streams, threads and launches."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from tracelake.reports import format as f
from tracelake.reports.names import label
from tracelake.reports.timeline.data import DeviceRow, EventRow, MergedRow, Rows, SampleRow, Source, Track
from tracelake.reports.words import reason, short_device
from tracelake.schemas.steps import INFERRED_STEP

MAX_LANES = 4
"""Lanes of a track for events that overlap; more share the last one."""
MAX_DEPTH = 16
"""Levels of nested annotations that have a lane of their own."""
DEVICE_KINDS = ("compute", "communication", "memory")
HOST_KINDS = {"launch": "launches", "sync": "launches"}
_CPU = "cpu_util_ratio"
_COUNTERS = {
    _CPU: "CPU, average",
    "cpu_iowait_ratio": "waiting for I/O",
    "memory_used": "memory used",
}

Key = tuple[str, str, int | None]
"""Where an event lies: its source, its device or kind of host track, its stream or thread."""
Row = TypeVar("Row", EventRow, MergedRow)


def tracks(rows: Rows) -> list[Track]:
    """The tree in the order in which it is drawn: a parent before its children."""
    ordered = sorted(rows.sources, key=_source_order)
    guilty = (s for s in ordered if s.rank is not None and s.rank == rows.window.focus_rank)
    opened = next(guilty, ordered[0] if ordered else None)
    events, merged = _by_key(rows.events), _by_key(rows.merged)
    made: list[Track] = []
    for number, node in enumerate(dict.fromkeys(s.node_id for s in ordered)):
        here = [s for s in ordered if s.node_id == node]
        made += _node(rows, f"n{number}", node, here)
        for source in here:
            place = f"p{ordered.index(source)}"
            made += _process(rows, place, f"n{number}", source, events, merged, is_open=source is opened)
    return made


def _source_order(source: Source) -> tuple[str, int, str]:
    return (source.node_id or "", source.rank if source.rank is not None else 1 << 40, source.source_id)


def _key(row: EventRow | MergedRow) -> Key:
    if row.device_id is not None and row.kind in DEVICE_KINDS:
        return (row.source_id, row.device_id, row.stream_id)
    return (row.source_id, HOST_KINDS.get(row.kind, "annotations"), row.thread_id)


def _by_key(given: Iterable[Row]) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in given:
        found[_key(row)].append(row)
    return found


def _node(rows: Rows, place: str, node: str | None, sources: Sequence[Source]) -> list[Track]:
    devices = len({d.device_id for d in rows.devices if any(d.source_id == s.source_id for s in sources)})
    made = [Track(place, "", "node", label(node, 40) if node else "node", "node" if node else "name not in the input")]
    counters = _counters(place, [s for s in rows.samples if s.node_id == node])
    if not any(c.title == _COUNTERS[_CPU] for c in counters):
        counters.insert(0, Track(f"{place}.cpu", place, "counter", "CPU", "not sampled", reason="no samples here"))
    gpus = Track(f"{place}.gpus", place, "sum", "GPUs, sum of utilization", f.plural(devices, "device"))
    return [*made, *counters, gpus if devices else _no_devices(gpus, sources)]


def _no_devices(gpus: Track, sources: Sequence[Source]) -> Track:
    code = next((s.gpu_reason for s in sources if s.gpu_reason), "no_gpu_activity_captured")
    return Track(gpus.id, gpus.parent, gpus.kind, gpus.title, code, reason=reason(code))


def _counters(place: str, samples: Sequence[SampleRow]) -> list[Track]:
    """A track per metric; the CPU's average first, the others below it."""
    by_metric: dict[str, list[SampleRow]] = defaultdict(list)
    for sample in samples:
        by_metric[sample.metric].append(sample)
    made = []
    for metric in sorted(by_metric, key=lambda m: (m != _CPU, m)):
        points = tuple((s.at_ns, s.value) for s in sorted(by_metric[metric], key=lambda s: s.at_ns))
        is_cpu = metric == _CPU
        parent = place if is_cpu or _CPU not in by_metric else f"{place}.{_CPU}"
        title = _COUNTERS.get(metric, metric.replace("_", " "))
        note = f.plural(len(points), "sample")
        unit = by_metric[metric][0].unit
        made.append(
            Track(f"{place}.{metric}", parent, "counter", title, note, samples=points, unit=unit, is_open=False)
        )
    return made


def _process(
    rows: Rows, place: str, node: str, source: Source, events: dict[Key, list[EventRow]],
    merged: dict[Key, list[MergedRow]], *, is_open: bool,
) -> list[Track]:  # fmt: skip
    rank = f"rank {source.rank}" if source.rank is not None else "rank not in the input"
    notes = [f"pid {source.process_id}"] if source.process_id is not None else []
    notes += [source.status] if source.status not in ("complete", "running") else []
    made = [Track(place, node, "process", f"process, {rank}", ", ".join(notes), is_open=is_open)]
    mine = [d for d in rows.devices if d.source_id == source.source_id]
    for number, device in enumerate(mine):
        made += _device(f"{place}.d{number}", place, device, source, events, merged)
    if not mine:
        code = source.gpu_reason or "no_gpu_activity_captured"
        made.append(Track(f"{place}.d0", place, "device", "GPU", code, reason=reason(code)))
    threads = sorted({k[2] for k in (*events, *merged) if k[0] == source.source_id and k[1] in _HOST}, key=_number)
    main = _main_thread(source, events)
    for thread in sorted(threads, key=lambda t: t != main):
        made += _thread(f"{place}.t{thread}", place, source, thread, events, merged, is_main=thread == main)
    return made


_HOST = ("launches", "annotations")


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _main_thread(source: Source, events: dict[Key, list[EventRow]]) -> int | None:
    """The thread that marks steps, else the one with most annotations."""
    counts: Counter[int | None] = Counter()
    for (source_id, kind, thread), found in events.items():
        if source_id == source.source_id and kind == "annotations":
            counts[thread] = len(found) + 1_000_000_000 * sum(e.kind == "step" for e in found)
    return counts.most_common(1)[0][0] if counts else None


def _device(
    place: str, parent: str, device: DeviceRow, source: Source, events: dict[Key, list[EventRow]],
    merged: dict[Key, list[MergedRow]],
) -> list[Track]:  # fmt: skip
    index = device.device_index if device.device_index is not None else label(device.device_id, 24)
    title, note = f"GPU {index}", short_device(label(device.name, 32)) if device.name else ""
    made = [Track(place, parent, "device", title, note)]
    here = (source.source_id, device.device_id)
    for stream in sorted({k[2] for k in (*events, *merged) if k[:2] == here}, key=_number):
        found = events.get((*here, stream), [])
        title = f"stream {stream}" if stream is not None else "stream not in the input"
        track = _track(f"{place}.s{stream}", place, "stream", title, found, merged.get((*here, stream), []))
        made.append(track)
    return made


def _thread(
    place: str, parent: str, source: Source, thread: int | None, events: dict[Key, list[EventRow]],
    merged: dict[Key, list[MergedRow]], *, is_main: bool,
) -> list[Track]:  # fmt: skip
    named, calls = ((source.source_id, kind, thread) for kind in ("annotations", "launches"))
    title = "main thread" if is_main else "thread" if thread is None else f"thread {thread}"
    note = "annotations" if events.get(named) else "no annotations"
    lanes = nested_lanes(events.get(named, []))
    made = [Track(place, parent, "thread", title, note, lanes=lanes, merged=tuple(merged.get(named, [])))]
    if calls in events or calls in merged:
        found = events.get(calls, [])
        made.append(_track(f"{place}.l", place, "launches", "launches", found, merged.get(calls, []), "runtime calls"))
    return made


def _track(
    place: str, parent: str, kind: str, title: str, events: list[EventRow], merged: list[MergedRow], note: str = ""
) -> Track:
    note = note or _what(events)
    return Track(place, parent, kind, title, note, lanes=lanes(events), merged=tuple(merged))


def _what(events: Sequence[EventRow]) -> str:
    """What a stream mostly does."""
    kinds: Counter[str] = Counter()
    for event in events:
        kinds[event.kind] += event.end_ns - event.start_ns
    return ", ".join(kind for kind, _ in kinds.most_common(2))


def lanes(events: Iterable[EventRow]) -> tuple[tuple[EventRow, ...], ...]:
    """Events dealt out so that those of one lane follow each other; beyond MAX_LANES they share the last."""
    dealt: list[list[EventRow]] = []
    for event in sorted(events, key=lambda e: (e.start_ns, -e.end_ns)):
        free = next((lane for lane in dealt if lane[-1].end_ns <= event.start_ns), None)
        if free is not None:
            free.append(event)
        elif len(dealt) < MAX_LANES:
            dealt.append([event])
        else:
            dealt[-1].append(event)
    return tuple(map(tuple, dealt))


def _is_inferred(event: EventRow) -> bool:
    return event.kind == "step" and event.name.startswith(INFERRED_STEP)


def nested_lanes(events: Iterable[EventRow]) -> tuple[tuple[EventRow, ...], ...]:
    """A lane per level of nesting; inferred steps, which nest with nothing, have one of their own on top."""
    in_time = sorted(events, key=lambda e: (e.start_ns, -e.end_ns))
    inferred = [event for event in in_time if _is_inferred(event)]
    levels: list[list[EventRow]] = []
    for event in (e for e in in_time if not _is_inferred(e)):
        depth = min(event.depth or 0, MAX_DEPTH - 1)
        while len(levels) <= depth:
            levels.append([])
        levels[depth].append(event)
    return tuple(map(tuple, [inferred, *levels] if inferred else levels))
