"""Writes simulated windows as the recorder does: a row that opens, segments, a row that closes, the manifest last."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracelake.recorder.segments import SourceWriter
from tracelake.recorder.simulate.events import Interval, RankEvents, arrow_table, drifted
from tracelake.recorder.simulate.fleet import Hardware, Job, Node
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import Segment, raw_root
from tracelake.schemas.render.arrow import arrow_schema

VERSION = "simulator-1"
FRAMEWORK = "PyTorch 2.9.1"
SIGTERM = -15


@dataclass(frozen=True)
class Window:
    """Which process of which job a window is, and how it ended."""

    job: Job
    node: Node
    rank: int
    source_id: str
    day: dt.date
    clock_offset_ns: int
    closed: bool
    state: str
    attempt: int = 0
    previous_source_id: str | None = None
    clock_drift_ppm: float = 0
    clock_origin_ns: int = 0
    """True time at which a drifting clock is right."""

    def drift(self, at_ns: int) -> int:
        """What the node's clock would say without its offset: a part per million gains a microsecond a second."""
        return at_ns + round((at_ns - self.clock_origin_ns) * self.clock_drift_ppm) // 1_000_000

    def read(self, at_ns: int) -> int:
        """What the node's clock says at an instant."""
        return self.drift(at_ns) + self.clock_offset_ns


def device_json(hardware: Hardware, index: int, device_uuid: str) -> str:
    device = {
        "index": index,
        "uuid": device_uuid,
        "name": hardware.device,
        "memory_bytes": hardware.memory_bytes,
        "sm_count": hardware.sm_count,
        "compute_capability": hardware.compute_capability,
    }
    return json.dumps([device])


def row_counts(stored: int) -> dict[str, int]:
    return {"read": stored, "stored": stored, "quarantined": 0, "deduplicated": 0, "skipped": 0}


def source_table(opened: Mapping[str, Any], closing: Mapping[str, Any] | None) -> pa.Table:
    """The opening row, which knows no end and no count, and the closing row where there is one."""
    zero = {f"rows_{name}_count": 0 for name in row_counts(0)}
    start = {**opened, **zero, "phase": "open", "state": "in_progress", "status": "running"}
    rows = [start] if closing is None else [start, {**start, **closing, "phase": "close"}]
    return pa.Table.from_pylist(rows, arrow_schema(table("raw.source")))


def _opened(window: Window, start_ns: int) -> dict[str, Any]:
    job, node = window.job, window.node
    index = window.rank % job.devices_per_node
    return {
        "day": window.day,
        "job_id": job.job_id,
        "attempt": window.attempt,
        "source_id": window.source_id,
        "format": "tracelake",
        "node_id": node.node_id,
        "rank": window.rank,
        "world_size": job.world_size,
        "process_id": 2_000 + window.rank % job.devices_per_node + 1_000 * window.attempt,
        "process_name": "python",
        "project": job.project,
        "user": job.user,
        "family": job.family,
        "framework": FRAMEWORK,
        "instance_type": job.hardware.instance_type,
        "cloud_account": "483920175566",
        "cloud_region": "us-east-1",
        "instance_id": node.instance_id,
        "cloud_job_id": f"train-{job.job_id}",
        "devices": device_json(job.hardware, index, node.device_uuids[index]),
        "hyperparameters": sorted(job.hyperparameters.items()),
        "tags": sorted(job.tags.items()),
        "window_start_ns": window.read(start_ns),
        "previous_source_id": window.previous_source_id,
        "flags": [],
        "skipped": [],
        "produced": [],
        "dropped": [],
        "recorder_version": VERSION,
    }


def _closing(window: Window, end_ns: int, host: Interval, counts: Mapping[str, int]) -> dict[str, Any]:
    return {
        "state": window.state,
        "exit_code": 0 if window.state == "completed" else SIGTERM,
        "status": "complete",
        "window_end_ns": window.read(end_ns),
        "host_start_ns": window.read(host[0]),
        "host_end_ns": window.read(host[1]),
        "produced": sorted((kind, str(count)) for kind, count in counts.items()),
        "dropped": sorted((kind, "0") for kind in counts),
        **{f"rows_{name}_count": count for name, count in row_counts(sum(counts.values())).items()},
    }


def write_window(lake: Path, window: Window, events: RankEvents) -> None:
    """Publish what one process recorded."""
    rows = events.tables()
    tables = {
        kind: arrow_table(kind, _dated(window, kind, some), window.clock_offset_ns) for kind, some in rows.items()
    }
    host = [(row.start_ns, row.start_ns + row.duration_ns) for row in events.launches]
    host += [(row.start_ns, row.start_ns + (row.duration_ns or 0)) for row in events.annotations]
    bounds = (min(start for start, _ in host), max(end for _, end in host))
    write_tables(lake, window, tables, (events.window_start_ns, events.window_end_ns), bounds)


def write_tables(
    lake: Path, window: Window, tables: Mapping[str, pa.Table], span: Interval, host: Interval
) -> tuple[Segment, ...]:
    """Publish one process's window: what it spans, and its host events, in true time.

    Without a closing row its manifest says that it still runs.
    """
    writer = SourceWriter(raw_root(lake), window.day.isoformat(), window.job.job_id, window.source_id)
    for kind, rows in tables.items():
        writer.write(kind, rows)
    counts = {kind: rows.num_rows for kind, rows in tables.items()}
    closing = _closing(window, span[1], host, counts) if window.closed else None
    writer.write("source", source_table(_opened(window, span[0]), closing))
    status = "complete" if window.closed else "running"
    manifest = writer.close(status, attempt=window.attempt, closed=window.closed, rows=row_counts(sum(counts.values())))
    return manifest.segments


def _dated(window: Window, kind: str, rows: Sequence[Any]) -> Sequence[Any]:
    """Rows with the drift of the node's clock in them."""
    if not window.clock_drift_ppm:
        return rows
    if kind == "sample":
        return [row._replace(at_ns=window.drift(row.at_ns)) for row in rows]
    return drifted(rows, window.drift)
