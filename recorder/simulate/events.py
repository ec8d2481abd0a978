"""Rows of the raw event tables as the simulator makes them, and their way into Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from tracelake.schemas.catalog import table
from tracelake.schemas.render.arrow import arrow_schema

Interval = tuple[int, int]
Row = TypeVar("Row", "Kernel", "Memop", "Launch", "Sync", "Annotation")


class Kernel(NamedTuple):
    name: str
    start_ns: int
    duration_ns: int
    device_index: int
    stream_id: int
    correlation_id: int
    grid_count: int
    block_count: int
    occupancy_ratio: float
    collective_name: str | None = None
    dtype: str | None = None
    message_bytes: int | None = None
    group_id: str | None = None
    group_size_count: int | None = None
    sequence: int | None = None


class Memop(NamedTuple):
    kind: str
    direction: str | None
    memory_kind: str | None
    bytes: int
    start_ns: int
    duration_ns: int
    device_index: int
    stream_id: int
    correlation_id: int


class Launch(NamedTuple):
    api_name: str
    thread_id: int
    start_ns: int
    duration_ns: int
    correlation_id: int


class Sync(NamedTuple):
    kind: str
    thread_id: int | None
    device_index: int | None
    stream_id: int | None
    start_ns: int
    duration_ns: int
    correlation_id: int


class Annotation(NamedTuple):
    side: str
    text: str
    thread_id: int
    start_ns: int
    duration_ns: int | None
    device_index: int | None = None
    stream_id: int | None = None


class Sample(NamedTuple):
    at_ns: int
    monotonic_ns: int
    entity_kind: str
    entity_id: str
    metric: str
    unit: str
    value: float | None
    is_valid: bool
    reason: str | None


@dataclass
class RankEvents:
    """Everything that one process recorded, in true time: no clock error is in it yet."""

    window_start_ns: int
    window_end_ns: int = 0
    kernels: list[Kernel] = field(default_factory=list)
    memops: list[Memop] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    steps: list[Interval] = field(default_factory=list)
    """Host intervals of the steps that ended, in order: the truth, not a table."""
    first_step: int = 0
    """Which step of the job the first of them is."""

    def tables(self) -> dict[str, Sequence[Any]]:
        """Rows by raw table, in order of time."""
        timed: dict[str, Sequence[Any]] = {
            "kernel": self.kernels,
            "memop": self.memops,
            "launch": self.launches,
            "sync": self.syncs,
            "annotation": self.annotations,
        }
        ordered = {kind: sorted(rows, key=lambda row: row.start_ns) for kind, rows in timed.items()}
        return {**ordered, "sample": self.samples}


def cut(events: RankEvents, at_ns: int) -> RankEvents:
    """What had been recorded at an instant.

    A call reaches the spool together with the work that it started, so what was queued or running dies with the
    process, its call too; a range that was open stays open.
    """
    kernels = [row for row in events.kernels if row.start_ns + row.duration_ns <= at_ns]
    memops = [row for row in events.memops if row.start_ns + row.duration_ns <= at_ns]
    done = {row.correlation_id for row in kernels} | {row.correlation_id for row in memops}
    return RankEvents(
        events.window_start_ns,
        at_ns,
        kernels,
        memops,
        [row for row in events.launches if row.correlation_id in done],
        [row for row in events.syncs if row.start_ns + row.duration_ns <= at_ns],
        [
            row if row.start_ns + (row.duration_ns or 0) <= at_ns else row._replace(duration_ns=None)
            for row in events.annotations
            if row.start_ns <= at_ns
        ],
        [],
        [step for step in events.steps if step[1] <= at_ns],
        events.first_step,
    )


def between(events: RankEvents, first: int, end: int) -> RankEvents:
    """The window that holds the steps [first, end) of a rank; the host is in no step, and the device done, where it
    opens and closes."""
    steps = events.steps[first:end]
    start_ns = _before(events, first)
    end_ns = events.window_end_ns if end >= len(events.steps) else _before(events, end)

    def inside(rows: list[Row]) -> list[Row]:
        return [row for row in rows if start_ns <= row.start_ns < end_ns]

    return RankEvents(
        start_ns,
        end_ns,
        inside(events.kernels),
        inside(events.memops),
        inside(events.launches),
        inside(events.syncs),
        inside(events.annotations),
        [],
        steps,
        events.first_step + first,
    )


def _before(events: RankEvents, number: int) -> int:
    """An instant between a step and the one before it."""
    if not number:
        return events.window_start_ns
    return (events.steps[number - 1][1] + events.steps[number][0]) // 2


def drifted(rows: Sequence[Row], read: Callable[[int], int]) -> list[Row]:
    """Rows as a clock dates them. Both ends of an interval move: what touched still does."""
    moved = []
    for row in rows:
        start_ns, length_ns = read(row.start_ns), row.duration_ns
        if length_ns is not None:
            length_ns = read(row.start_ns + length_ns) - start_ns
        moved.append(row._replace(start_ns=start_ns, duration_ns=length_ns))
    return moved


def arrow_table(kind: str, rows: Iterable[NamedTuple], clock_offset_ns: int) -> pa.Table:
    """Rows of one raw table as the node's clock dates them; the writer adds the ids of job and source."""
    rows = list(rows)
    if not rows:
        return pa.table({})
    schema = arrow_schema(table(f"raw.{kind}"))
    columns: dict[str, list[Any]] = {
        name: list(values) for name, values in zip(rows[0]._fields, zip(*rows, strict=True), strict=True)
    }
    clock = "at_ns" if kind == "sample" else "start_ns"
    columns[clock] = [at_ns + clock_offset_ns for at_ns in columns[clock]]
    if kind != "sample":
        columns["event_id"] = list(range(len(rows)))
    return pa.table({name: pa.array(values, schema.field(name).type) for name, values in columns.items()})
