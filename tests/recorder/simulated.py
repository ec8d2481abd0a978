"""Small simulated jobs, and what can be read off their events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tracelake.recorder.simulate import Fault, Job
from tracelake.recorder.simulate.events import RankEvents
from tracelake.recorder.simulate.intervals import length
from tracelake.recorder.simulate.light import GPU_BOUND, Model
from tracelake.recorder.simulate.play import record
from tracelake.schemas.manifest import manifests, raw_root

SEED = 5
STEPS = 12


def small_job(model: Model = GPU_BOUND[0], *faults: Fault, **other: Any) -> Job:
    shape = {"nodes": 2, "devices_per_node": 2, "steps": STEPS, "start_second": 60, **other}
    return Job("job", model.workload, model.hardware, faults=faults, reads_reasons=True, **shape)


def ranks_of(job: Job) -> list[RankEvents]:
    return [window.events for window in record(job, SEED, 0)]


def durations(events: RankEvents) -> list[int]:
    return [end - start for start, end in events.steps]


def windows_of(lake: Path) -> dict[str, tuple[Any, dict[str, list[dict[str, Any]]]]]:
    """By source: its manifest, and its rows by kind."""
    found: dict[str, tuple[Any, dict[str, list[dict[str, Any]]]]] = {}
    for _, manifest in manifests(raw_root(lake)):
        rows = found.setdefault(manifest.source_id, (manifest, {}))[1]
        for segment in manifest.segments:
            rows.setdefault(segment.kind, []).extend(pq.ParquetFile(raw_root(lake) / segment.path).read().to_pylist())
    return found


def own_work(events: RankEvents) -> list[int]:
    """By step: its time without exposed communication."""
    found = []
    for start, end in events.steps:
        inside = [k for k in events.kernels if k.start_ns < end and k.start_ns + k.duration_ns > start]
        spans = [
            (max(start, k.start_ns), min(end, k.start_ns + k.duration_ns), k.collective_name is None) for k in inside
        ]
        exposed = length((a, b) for a, b, _ in spans) - length((a, b) for a, b, own in spans if own)
        found.append(end - start - exposed)
    return found
