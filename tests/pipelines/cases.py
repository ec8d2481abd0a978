"""The number cases of CASES.md as inputs, written as Kineto files and as own Parquet, and the tables made from them.

One lake and one run hold all of them: job `case-<name>-<importer>`. Times are nanoseconds; the builders take
microseconds, from BASE_NS where a case does not say when it was.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from quick import LAST, run_without

from tracelake.pipelines.lake import Lake
from tracelake.recorder.importers import ImportOptions
from tracelake.recorder.importers.trace_file import import_file
from tracelake.recorder.segments import SourceWriter
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import raw_root
from tracelake.schemas.render.arrow import arrow_schema

IMPORTERS = ("kineto", "raw")
BASE_NS = 1_700_000_000_000_000_000
US = 1_000
PID = 100
TABLES = (
    "normalized.sources", "normalized.devices", "normalized.kernels", "normalized.memops", "normalized.launches",
    "normalized.syncs", "normalized.annotations", "normalized.samples", "aggregates.job_summary",
    "aggregates.device_ledger", "aggregates.step_ledger", "aggregates.step_launches", "aggregates.launch_stats",
    "aggregates.kernel_stats", "aggregates.utilization", "aggregates.idle_causes", "aggregates.outlier_steps",
    "aggregates.collective_waits", "aggregates.collective_matches", "aggregates.rank_steps",
    "aggregates.stragglers", "operations.quarantine", "operations.files",
)  # fmt: skip
_CATEGORY = {
    "kernel": "kernel", "memop": "gpu_memcpy", "launch": "cuda_runtime", "sync": "cuda_sync", "operator": "cpu_op",
    "annotation": "user_annotation",
}  # fmt: skip
Row = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """One event of a case, in no format yet. A device-side one has no thread."""

    kind: str
    name: str
    start_ns: int
    duration_ns: int
    process: int = PID
    thread: int | str | None = None
    device: int = 0
    stream: int | str = 7
    correlation: int = 0


@dataclass(frozen=True)
class Recording:
    """What one file, or one window per process, holds. `text` is the Kineto file where its form is the case."""

    events: Sequence[Event]
    rank: int | None = None
    world_size: int | None = None
    node: str | None = None
    uuids: Sequence[str] = ()
    samples: Sequence[Row] = ()
    header: Row = field(default_factory=dict)
    text: bytes | None = None
    kept: int | None = None
    """Kernels that a cut recording keeps; NULL for a whole one."""


def ns(microseconds: float, base: int = BASE_NS) -> int:
    return base + int(Decimal(str(microseconds)) * US)


def _event(kind: str, name: str, start: float, end: float, base: int, **where: Any) -> Event:
    return Event(kind, name, ns(start, base), ns(end, base) - ns(start, base), **where)


def kernel(start: float, end: float, corr: int = 0, name: str = "k", base: int = BASE_NS, **where: Any) -> Event:
    return _event("kernel", name, start, end, base, correlation=corr, **where)


def launch(start: float, dur: float, corr: int, api: str = "cudaLaunchKernel", **where: Any) -> Event:
    return _event("launch", api, start, start + dur, BASE_NS, correlation=corr, **{"thread": 1, **where})


def host(start: float, end: float, text: str, *, thread: int | str = 1, base: int = BASE_NS, pid: int = PID) -> Event:
    return _event("annotation", text, start, end, base, thread=thread, process=pid)


def marker(kind: str, name: str, start: float, end: float) -> Event:
    """A device-side row: a copy of an annotation, a sync marker, or a copy."""
    return _event(kind, name, start, end, BASE_NS)


def _us(value: int) -> str:
    sign, size = ("-" if value < 0 else ""), abs(value)
    return f"{sign}{size // US}.{size % US:03d}"


def kineto(recording: Recording) -> bytes:
    """The recording as a Kineto file, times as decimal microseconds."""
    if recording.text is not None:
        return recording.text
    head: Row = dict(recording.header)
    if recording.rank is not None:
        head["distributedInfo"] = {"rank": recording.rank, "world_size": recording.world_size}
    if recording.uuids:
        head["deviceProperties"] = [{"id": i, "uuid": uuid} for i, uuid in enumerate(recording.uuids)]
    opening = json.dumps(head)[1:-1]
    rows = ",\n".join(_kineto_row(event) for event in recording.events)
    text = ("{" + opening + (", " if opening else "") + '"traceEvents": [\n' + rows + "\n]}").encode()
    if recording.kept is None:
        return text
    parts = text.split(b'{"ph": "X", "cat": "kernel"')
    return b'{"ph": "X", "cat": "kernel"'.join(parts[: recording.kept + 1]) + b'{"ph": "X", "cat": "kern'


def _kineto_row(event: Event) -> str:
    on_device = event.thread is None
    category = "gpu_user_annotation" if on_device and event.kind == "annotation" else _CATEGORY[event.kind]
    place = {"device": event.device, "stream": event.stream} if on_device else {}
    row = {
        "name": event.name,
        "pid": event.device if on_device else event.process,
        "tid": event.stream if on_device else event.thread,
        "args": {"correlation": event.correlation, **place},
    }
    times = f'"ts": {_us(event.start_ns)}, "dur": {_us(event.duration_ns)}'
    return f'{{"ph": "X", "cat": "{category}", {times}, {json.dumps(row)[1:]}'


def _raw_row(event: Event, number: int) -> Row:
    on_device = event.thread is None
    start = min(event.start_ns, (1 << 63) - 1)
    row: Row = {"event_id": number, "start_ns": start, "duration_ns": event.duration_ns}
    row |= {"name": event.name, "api_name": event.name, "text": event.name}
    row |= {"side": "device" if on_device else "host", "correlation_id": event.correlation}
    row["thread_id"] = event.thread
    if on_device:
        row |= {"device_index": event.device, "stream_id": event.stream}
    if event.kind == "memop":
        row |= {"kind": "memcpy", "direction": "htod"}
    if event.kind == "sync":
        row["kind"] = event.name.lower().replace(" ", "_")
    return row


def write_raw(
    lake: Path,
    job: str,
    source: str,
    recording: Recording,
    pid: int | None,
    events: list[Event],
    supersedes: Sequence[str],
) -> None:
    """The recording of one process as the recorder's own segments."""
    kernels = [event for event in events if event.kind == "kernel"][: recording.kept]
    events = [event for event in events if event.kind != "kernel"] + kernels
    real = [event.start_ns for event in events if BASE_NS <= event.start_ns < 1 << 62]
    day = dt.datetime.fromtimestamp(min(real, default=0) // 10**9, dt.timezone.utc).date()
    writer = SourceWriter(raw_root(lake), day.isoformat(), job, source)
    for kind in sorted({event.kind for event in events}):
        rows = [_raw_row(event, number) for number, event in enumerate(e for e in events if e.kind == kind)]
        writer.write(kind, _arrow(kind, rows, writer))
    if recording.samples:
        writer.write("sample", _arrow("sample", list(recording.samples), writer))
    stored = len(events) + len(recording.samples)
    counts = {"read": stored, "stored": stored, "quarantined": 0, "deduplicated": 0, "skipped": 0}
    status = "complete" if recording.kept is None else "incomplete"
    opened = _source_row(recording, events, day, pid, counts) | {"attempt": 0, "status": status}
    writer.write("source", _arrow("source", [opened | {"phase": phase} for phase in ("open", "close")], writer))
    writer.close(status, attempt=0, rows=counts, supersedes=tuple(supersedes))


def _arrow(kind: str, rows: list[Row], writer: SourceWriter) -> pa.Table:
    ids = {"job_id": writer.job_id, "source_id": writer.source_id}
    return pa.Table.from_pylist([ids | row for row in rows], arrow_schema(table(f"raw.{kind}")))


def _source_row(recording: Recording, events: list[Event], day: dt.date, pid: int | None, counts: Row) -> Row:
    on_host = [event for event in events if event.thread is not None]
    return {
        "day": day,
        "format": "tracelake",
        "node_id": recording.node,
        "rank": recording.rank,
        "world_size": recording.world_size,
        "process_id": pid,
        "devices": json.dumps([{"index": i, "uuid": uuid} for i, uuid in enumerate(recording.uuids)]),
        **{name: [] for name in ("hyperparameters", "tags", "skipped", "produced", "dropped")},
        "flags": ["rank_missing"] if recording.rank is None else [],
        "host_start_ns": min((event.start_ns for event in on_host), default=None),
        "host_end_ns": max((event.start_ns + event.duration_ns for event in on_host), default=None),
        **{f"rows_{name}_count": count for name, count in counts.items()},
        "recorder_version": "cases-1",
    }


@dataclass(frozen=True)
class Job:
    """Rows of one job's tables."""

    job_id: str
    tables: dict[str, list[Row]]

    def rows(self, name: str, **where: Any) -> list[Row]:
        """Rows of a table by its short name, those with the given values; events in order of time."""
        full = next(each for each in TABLES if each.endswith(f".{name}"))
        found = [row for row in self.tables[full] if row["job_id"] == self.job_id]
        found = [row for row in found if all(row[key] == value for key, value in where.items())]
        return sorted(found, key=lambda row: (row.get("start_ns") or 0, str(row.get("source_id"))))

    def one(self, name: str, **where: Any) -> Row:
        (row,) = self.rows(name, **where)
        return row

    @cached_property
    def summary(self) -> Row:
        return self.one("job_summary")

    @cached_property
    def ledger(self) -> Row:
        """The ledger of the job's only window and device."""
        return self.one("device_ledger", scope="window")


class CaseLake:
    """A lake that cases are written into, and the tables that a run makes of them."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root, self.spark = root, spark
        self.lake = Lake(root / "lake")

    def add(
        self,
        name: str,
        recordings: Sequence[Recording],
        importers: Sequence[str] = IMPORTERS,
        *,
        supersedes: Sequence[str] = (),
    ) -> None:
        """Write a case. `supersedes` are raw sources that the whole recording replaces; files find that out alone."""
        for importer in importers:
            job = f"case-{name}-{importer}"
            for number, recording in enumerate(recordings):
                part = f"{number}-cut" if recording.kept else str(number)
                if importer == "kineto":
                    file = self.root / f"{job}-{part}.json"
                    file.write_bytes(kineto(recording))
                    import_file(file, self.lake.root, ImportOptions(job, node_id=recording.node))
                else:
                    self._add_raw(job, part, recording, supersedes)

    def _add_raw(self, job: str, part: str, recording: Recording, supersedes: Sequence[str]) -> None:
        pids: list[int | None] = [*sorted({event.process for event in recording.events if event.thread is not None})]
        for pid in pids or [None]:
            events = [event for event in recording.events if event.process == pid or len(pids) < 2]
            write_raw(self.lake.root, job, f"{part}-{pid}", recording, pid, events, supersedes)

    def run(self) -> dict[str, list[Row]]:
        """Run the pipeline and read every table once."""
        run_without(*LAST)(self.lake, self.spark)
        return {name: [r.asDict() for r in self.lake.read(self.spark, name).collect()] for name in TABLES}
