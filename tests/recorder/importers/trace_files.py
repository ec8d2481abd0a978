"""Kineto files for the importer tests, and what a lake holds after an import."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tracelake.schemas.manifest import Manifest, manifests, raw_root

JOB = "job"
HOST = 100
"""Process id of the host events, where a test has one process."""


def event(cat: str, name: str, ts: object, dur: object, *, pid: object = HOST, tid: object = 1, **args: object) -> str:
    """One complete event as JSON. Times in microseconds, written as they are given."""
    rest = json.dumps({"name": name, "pid": pid, "tid": tid, "args": args})
    return f'{{"ph": "X", "cat": "{cat}", "ts": {ts}, "dur": {dur}, {rest[1:]}'


def kernel(ts: object, dur: object = 10, *, name: str = "k", correlation: int = 0, device: int = 0) -> str:
    return event("kernel", name, ts, dur, pid=device, tid=7, device=device, stream=7, correlation=correlation)


def launch(ts: object, *, correlation: int, pid: object = HOST, dur: object = 2) -> str:
    return event("cuda_runtime", "cudaLaunchKernel", ts, dur, pid=pid, correlation=correlation)


def kernels(count: int, *, first: int = 0) -> list[str]:
    """Kernels of 10 us, back to back, each with a name of its own."""
    return [kernel(10 * i, name=f"k{i}", correlation=i + 1) for i in range(first, first + count)]


def trace(events: Sequence[str], header: Mapping[str, object] | None = None) -> bytes:
    """A file in the object form, the header before the events."""
    head = json.dumps(dict(header or {}))[1:-1]
    return ("{" + (head + ", " if head else "") + '"traceEvents": [\n' + ",\n".join(events) + "\n]}\n").encode()


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def live(lake: Path, job: str = JOB) -> list[Manifest]:
    """Sources of a job that no later one supersedes."""
    found = [manifest for _, manifest in manifests(raw_root(lake), job)]
    gone = {source for manifest in found for source in manifest.supersedes}
    return [manifest for manifest in found if manifest.source_id not in gone]


def stored(lake: Path, kind: str, job: str = JOB) -> list[dict[str, Any]]:
    """Rows of one kind of the job's live sources, in the order of their ids."""
    rows: list[dict[str, Any]] = []
    for manifest in live(lake, job):
        for segment in manifest.segments:
            if segment.kind == kind:
                rows += pq.ParquetFile(raw_root(lake) / segment.path).read().to_pylist()
    return rows


def left_behind(lake: Path) -> list[str]:
    """Every file under raw/, and every folder of a staging that was not discarded."""
    files = [path for path in (lake / "raw").rglob("*") if path.is_file()]
    return [str(path) for path in [*files, *raw_root(lake).glob("_staging/*")]]
