"""The whole product: a recorded job into a lake, and one in which torch.profiler comes and goes."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.gpu.work import SECONDS, STAND_IN, run, work
from tracelake.schemas.manifest import manifests, raw_root


def recorded(folder: Path) -> dict[str, Any]:
    """Some seconds of steps under `record()`: what is stored, its bytes per row, and what was sampled."""
    import tracelake
    from tracelake.recorder import process

    chosen = {"output": str(folder / "lake"), "spool": str(folder / "spool"), "job_id": "check"}
    with tracelake.record(**chosen, exit_wait_seconds=60, sampling_interval_ms=200):
        job = work()
        until, step = time.monotonic() + SECONDS, 0
        while time.monotonic() < until:
            with tracelake.annotate(f"step_{step}"):
                run(job, 1)
            step += 1
    process.unload()
    lake = raw_root(folder / "lake")
    tables = {kind: read(lake, kind) for kind in ("kernel", "launch", "memop", "sync", "annotation", "sample")}
    sizes = _bytes(lake)
    found = {kind: rows for kind, rows in tables.items() if rows is not None}
    return {
        "steps": step,
        "rows": {kind: rows.num_rows for kind, rows in found.items()},
        "bytes_per_row": {kind: round(sizes[kind] / rows.num_rows, 3) for kind, rows in found.items()},
        "bytes_per_launched_kernel": round((sizes["kernel"] + sizes["launch"]) / found["kernel"].num_rows, 3),
        "closing": closing(lake),
        "device_metrics": _metrics(found["sample"]) if "sample" in found else {},
    }


def coexistence(folder: Path) -> dict[str, Any]:
    """torch.profiler inside our window: we must leave CUPTI to it, say so, and come back with our own clock."""
    if os.environ.get(STAND_IN):
        return {"skipped": "needs PyTorch"}
    from torch.profiler import ProfilerActivity, profile

    import tracelake
    from tracelake.recorder import process

    marks: dict[str, tuple[int, int]] = {}

    def phase(name: str, seconds: float) -> None:
        began, until = time.time_ns(), time.monotonic() + seconds
        while time.monotonic() < until:
            run(job, 5)
        marks[name] = (began, time.time_ns())

    chosen = {"output": str(folder / "lake"), "spool": str(folder / "spool"), "job_id": "check"}
    with tracelake.record(**chosen, exit_wait_seconds=60):
        job = work()
        phase("before", 1.0)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            phase("during", 0.5)
        phase("coming_back", 1.5)
        phase("after", 1.0)
    process.unload()
    path = folder / "kineto.json"
    profiler.export_chrome_trace(str(path))
    seen = Counter(event.get("cat") for event in json.loads(path.read_text())["traceEvents"])
    lake = raw_root(folder / "lake")
    kernels, losses = read(lake, "kernel"), read(lake, "loss")
    starts = kernels["start_ns"] if kernels is not None else pa.chunked_array([], pa.int64())
    within = {
        name: pc.sum(pc.and_(pc.greater_equal(starts, began), pc.less(starts, ended))).as_py() or 0
        for name, (began, ended) in marks.items()
    }
    return {
        "our_kernels": within,
        "our_kernels_outside_every_phase": len(starts) - sum(within.values()),
        "kineto_kernels": seen["kernel"],
        "losses": [] if losses is None else losses.select(["reason", "excerpt"]).to_pylist(),
        "closing": closing(lake),
    }


def read(root: Path, kind: str) -> pa.Table | None:
    """Every stored row of a kind."""
    paths = [root / each.path for _, manifest in manifests(root) for each in manifest.segments if each.kind == kind]
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths]) if paths else None


def closing(root: Path) -> dict[str, Any]:
    """How the window ended, and its own account of the events."""
    rows = read(root, "source")
    wanted = ("status", "status_reason", "capture", "capture_reason", "produced", "dropped", "flags", "devices")
    found = [] if rows is None else [row for row in rows.to_pylist() if row["phase"] == "close"]
    return {name: found[-1][name] for name in wanted} if found else {}


def _bytes(root: Path) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for _, manifest in manifests(root):
        for segment in manifest.segments:
            sizes[segment.kind] += segment.bytes
    return dict(sizes)


def _metrics(samples: pa.Table) -> dict[str, Any]:
    """Of each device metric: how many readings worked, their range, and why others did not."""
    result = {}
    rows = samples.filter(pc.equal(samples["entity_kind"], "device"))
    for metric in sorted(set(rows["metric"].to_pylist())):
        some = rows.filter(pc.equal(rows["metric"], metric))
        span = pc.min_max(some["value"]).as_py()
        reasons = Counter(reason for reason in some["reason"].to_pylist() if reason)
        result[metric] = {"readings": some.num_rows, "valid": pc.sum(some["is_valid"]).as_py() or 0, **span,
                          "reasons": dict(reasons)}  # fmt: skip
    return result
