"""The same stretch as a file that Perfetto's UI opens: the JSON trace event format, compressed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tracelake.reports import format as f
from tracelake.reports.names import bounded
from tracelake.reports.timeline.data import EventRow, Mark, MergedRow, Rows, Track
from tracelake.reports.timeline.tree import tracks

STEPS_PROCESS = 1
"""The process that holds the job's steps; the job's own follow."""
Event = dict[str, Any]


def perfetto(rows: Rows) -> bytes:
    """The trace. Times are microseconds with three decimals since the earliest event: exact nanoseconds."""
    tree = tracks(rows)
    starts = [e.start_ns for e in rows.events] + [m.start_ns for m in rows.merged] + [m.start_ns for m in rows.marks]
    zero = min([rows.window.start_ns, *starts])
    lanes = [*_lanes(tree)]
    events = [*_steps(rows.marks, zero), *_names(tree), *(_thread_name(lane) for lane in lanes)]
    events += [_slice(lane, e, zero) for lane in lanes for e in lane.events]
    events += [_block(lane, m, zero) for lane in lanes for m in lane.merged]
    events += [*_flows(lanes, zero), *_counters(tree, zero)]
    head = {
        "job_id": rows.window.job_id,
        "attempt": rows.window.attempt,
        "window": rows.window.title,
        "zero_unix_ns": str(zero),
        "zero_utc": f.utc(zero, digits=9).replace(f.NBSP, " "),
        "events_kept": len(rows.events),
        "events_merged": rows.event_count - len(rows.events),
    }
    trace = {"displayTimeUnit": "ns", "otherData": head, "traceEvents": events}
    return gzip.compress(json.dumps(trace, separators=(",", ":"), allow_nan=False).encode(), 6, mtime=0)


def _us(ns: int) -> float:
    """Microseconds; a double holds a day of them to the nanosecond."""
    return ns / 1_000


@dataclass(frozen=True, slots=True)
class _Lane:
    """A thread of the trace: one lane of a track."""

    pid: int
    tid: int
    name: str
    events: tuple[EventRow, ...] = ()
    merged: tuple[MergedRow, ...] = ()


def _lanes(tree: Sequence[Track]) -> Iterator[_Lane]:
    """Annotations nest, so one thread holds all their lanes; overlapping kernels do not, so each lane is a thread."""
    by_id, processes = {t.id: t for t in tree}, _process_ids(tree)
    for number, track in enumerate(tree):
        if not track.lanes and not track.merged:
            continue
        above = by_id[track.parent]
        pid = processes.get(above.id) or processes[above.parent]
        name = f"{above.title} {track.title}" if track.kind in ("stream", "launches") else track.title
        nested = tuple(sorted((e for lane in track.lanes for e in lane), key=lambda e: (e.start_ns, -e.end_ns)))
        for i, lane in enumerate([nested] if track.kind == "thread" else track.lanes):
            yield _Lane(pid, 100 * number + i + 1, f"{name} ({i + 1})" if i else name, events=lane)
        if track.merged:
            yield _Lane(pid, 100 * number + 99, f"{name}, short events merged", merged=track.merged)


def _process_ids(tree: Sequence[Track]) -> dict[str, int]:
    return {t.id: STEPS_PROCESS + 1 + i for i, t in enumerate(t for t in tree if t.kind == "process")}


def _meta(pid: int, tid: int, what: str, /, **args: object) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args}


def _names(tree: Sequence[Track]) -> Iterator[Event]:
    titles = {t.id: t.title for t in tree}
    for place, pid in _process_ids(tree).items():
        node = next(t.parent for t in tree if t.id == place)
        yield _meta(pid, 0, "process_name", name=f"{titles[place].removeprefix('process, ')}, {titles[node]}")
        yield _meta(pid, 0, "process_sort_index", sort_index=pid)


def _thread_name(lane: _Lane) -> Event:
    return _meta(lane.pid, lane.tid, "thread_name", name=bounded(lane.name, 200))


def _span(pid: int, tid: int, name: str, times: tuple[int, int, int], **args: object) -> Event:
    """`times` are start, end and the zero of the trace."""
    start, end, zero = times
    known = {key: value for key, value in args.items() if value is not None}
    timed = {"ts": _us(start - zero), "dur": _us(end - start)}
    return {"ph": "X", "pid": pid, "tid": tid, "name": bounded(name, 1_000), **timed, "args": known}


def _slice(lane: _Lane, e: EventRow, zero: int) -> Event:
    times = (e.start_ns, e.end_ns, zero)
    more = {"kind": e.kind, "detail": e.detail, "bytes": e.bytes, "collective": e.collective}
    return _span(lane.pid, lane.tid, e.name, times, **more)


def _block(lane: _Lane, m: MergedRow, zero: int) -> Event:
    times = (m.start_ns, m.end_ns, zero)
    return _span(lane.pid, lane.tid, f"{m.event_count} events", times, kind=m.kind, busy_ns=m.busy_ns)


def _steps(marks: Sequence[Mark], zero: int) -> Iterator[Event]:
    if marks:
        yield _meta(STEPS_PROCESS, 0, "process_name", name="steps of the job")
    for mark in marks:
        times = (mark.start_ns, mark.end_ns, zero)
        yield _span(STEPS_PROCESS, 1, mark.label, times, unusual=mark.kind, why=mark.say or None)


def _flows(lanes: Sequence[_Lane], zero: int) -> Iterator[Event]:
    """An arrow from each launch to each event that it started."""
    placed = [(lane, e) for lane in lanes for e in lane.events]
    launches = {(e.source_id, e.launch_id): (lane, e) for lane, e in placed if e.kind == "launch"}
    number = 0
    for lane, e in placed:
        from_lane, launch = launches.get((e.source_id, e.launch_id), (lane, e))
        if launch is e or e.launch_id is None:
            continue
        number += 1
        flow = {"cat": "launch", "name": "launch", "id": number}
        yield {"ph": "s", "pid": from_lane.pid, "tid": from_lane.tid, "ts": _us(launch.start_ns - zero), **flow}
        yield {"ph": "f", "bp": "e", "pid": lane.pid, "tid": lane.tid, "ts": _us(e.start_ns - zero), **flow}


def _counters(tree: Sequence[Track], zero: int) -> Iterator[Event]:
    """Counters of a node, shown with its first process."""
    by_id, processes = {t.id: t for t in tree}, _process_ids(tree)
    for track in tree:
        node = track.id.partition(".")[0]
        pid = next((pid for place, pid in processes.items() if by_id[place].parent == node), STEPS_PROCESS)
        name = f"{by_id[node].title if node in by_id else ''} {track.title}".strip()
        for at, value in track.samples:
            if value is not None and at >= zero:
                args = {track.unit or "value": value}
                yield {"ph": "C", "pid": pid, "tid": 0, "name": name, "ts": _us(at - zero), "args": args}
