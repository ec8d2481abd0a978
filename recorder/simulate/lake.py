"""Writes simulated windows as the recorder does: a row that opens, segments, a row that closes, the manifest last."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracelake.recorder.segments import SourceWriter
from tracelake.recorder.simulate.events import RankEvents, arrow_table
from tracelake.recorder.simulate.fleet import Hardware, Job, Node
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import raw_root
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


def _opened(window: Window, events: RankEvents) -> dict[str, Any]:
    job, node = window.job, window.node
    index = window.rank % job.devices_per_node
    return {
        "day": window.day,
        "job_id": job.job_id,
        "attempt": 0,
        "source_id": window.source_id,
        "format": "tracelake",
        "node_id": node.node_id,
        "rank": window.rank,
        "world_size": job.world_size,
        "process_id": 2_000 + window.rank % job.devices_per_node,
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
        "window_start_ns": events.window_start_ns + window.clock_offset_ns,
        "flags": [],
        "skipped": [],
        "produced": [],
        "dropped": [],
        "recorder_version": VERSION,
    }


def _closing(window: Window, events: RankEvents, counts: Mapping[str, int]) -> dict[str, Any]:
    host = [(row.start_ns, row.start_ns + row.duration_ns) for row in events.launches]
    host += [(row.start_ns, row.start_ns + (row.duration_ns or 0)) for row in events.annotations]
    return {
        "state": window.state,
        "exit_code": 0 if window.state == "completed" else SIGTERM,
        "status": "complete",
        "window_end_ns": events.window_end_ns + window.clock_offset_ns,
        "host_start_ns": min(start for start, _ in host) + window.clock_offset_ns,
        "host_end_ns": max(end for _, end in host) + window.clock_offset_ns,
        "produced": sorted((kind, str(count)) for kind, count in counts.items()),
        "dropped": sorted((kind, "0") for kind in counts),
        **{f"rows_{name}_count": count for name, count in row_counts(sum(counts.values())).items()},
    }


def write_window(lake: Path, window: Window, events: RankEvents) -> None:
    """Publish one process's window. Without a closing row its manifest says that it still runs."""
    writer = SourceWriter(raw_root(lake), window.day.isoformat(), window.job.job_id, window.source_id)
    tables = events.tables()
    for kind, rows in tables.items():
        writer.write(kind, arrow_table(kind, rows, window.clock_offset_ns))
    counts = {kind: len(rows) for kind, rows in tables.items()}
    closing = _closing(window, events, counts) if window.closed else None
    writer.write("source", source_table(_opened(window, events), closing))
    status = "complete" if window.closed else "running"
    writer.close(status, attempt=0, closed=window.closed, rows=row_counts(sum(counts.values())))
