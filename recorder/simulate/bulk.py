"""A source of any size for benchmarks: regular kernels made column by column, one segment after the other."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracelake.recorder.segments import SEGMENT_ROWS, SourceWriter
from tracelake.recorder.simulate import names
from tracelake.recorder.simulate.events import Annotation, arrow_table
from tracelake.recorder.simulate.fleet import H100, SECOND_NS, day_start_ns
from tracelake.recorder.simulate.lake import FRAMEWORK, VERSION, device_json, row_counts, source_table
from tracelake.schemas.manifest import raw_root

PERIOD_NS = 10_000
KERNEL_NS = 5_000
LAUNCH_NS = 4_000
STEP_KERNELS = 10_000
_NAMES = (names.NVJET, names.GEMM_H100, names.FLASH_FORWARD, names.LAYER_NORM, names.SILU, names.ADD_BF16, names.ADAM)
_THREAD = 140_000_000_000_001
Column = Any
"""An Arrow array: what they hold is the tables' affair."""


@dataclass(frozen=True)
class Bulk:
    """What is true of the sources: busy_ns and window_ns are each device's."""

    source_ids: tuple[str, ...]
    kernels_count: int
    busy_ns: tuple[int, ...]
    window_ns: tuple[int, ...]


def simulate_kernels(
    lake: Path,
    job_id: str,
    kernels: int = 10_000_000,
    devices: int = 1,
    *,
    seed: int = 7,
    day: dt.date = dt.date(2026, 11, 28),
) -> Bulk:
    """Write `kernels` kernels of 5 us, one each 10 us, shared among `devices` ranks of one device each.

    Memory stays that of one segment. Every device is busy for exactly half of its window, in steps of 100 ms.
    """
    if kernels < devices or devices < 1:
        raise ValueError(f"simulate_kernels: {kernels} kernels on {devices} devices; give each device at least one")
    shares = [kernels // devices + (rank < kernels % devices) for rank in range(devices)]
    sources = tuple(_write(lake, job_id, rank, devices, share, seed, day) for rank, share in enumerate(shares))
    windows = tuple(share * PERIOD_NS for share in shares)
    return Bulk(sources, kernels, tuple(share * KERNEL_NS for share in shares), windows)


def _write(lake: Path, job_id: str, rank: int, world_size: int, kernels: int, seed: int, day: dt.date) -> str:
    rng = random.Random(f"{seed}/{job_id}/{rank}")
    source_id, device_uuid = (str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(2))
    start_ns = day_start_ns(day) + 3_600 * SECOND_NS
    writer = SourceWriter(raw_root(lake), day.isoformat(), job_id, source_id)
    for kernel, launch in _segments(kernels, start_ns, rng):
        writer.write("kernel", kernel)
        writer.write("launch", launch)
    steps = _steps(kernels, start_ns)
    writer.write("annotation", steps)
    opened = {
        "day": day,
        "job_id": job_id,
        "attempt": 0,
        "source_id": source_id,
        "format": "tracelake",
        "node_id": f"bench-{rank // 8 + 1:02d}",
        "rank": rank,
        "world_size": world_size,
        "process_id": 2_000 + rank,
        "framework": FRAMEWORK,
        "instance_type": H100.instance_type,
        "devices": device_json(H100, 0, f"GPU-{device_uuid}"),
        "window_start_ns": start_ns,
        **{name: [] for name in ("hyperparameters", "tags", "flags", "skipped", "produced", "dropped")},
        "recorder_version": VERSION,
    }
    counts = {"annotation": steps.num_rows, "kernel": kernels, "launch": kernels}
    writer.write("source", source_table(opened, closing(counts, start_ns, start_ns + kernels * PERIOD_NS)))
    writer.close("complete", attempt=0, rows=row_counts(sum(counts.values())))
    return source_id


def closing(counts: Mapping[str, int], start_ns: int, end_ns: int) -> dict[str, Any]:
    """What the last row says of a window that ended well."""
    return {
        "state": "completed",
        "exit_code": 0,
        "status": "complete",
        "window_end_ns": end_ns,
        "host_start_ns": start_ns,
        "host_end_ns": end_ns,
        "produced": [(kind, str(count)) for kind, count in counts.items()],
        "dropped": [(kind, "0") for kind in counts],
        **{f"rows_{name}_count": count for name, count in row_counts(sum(counts.values())).items()},
    }


def _segments(kernels: int, start_ns: int, rng: random.Random) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Kernels and their launches, a segment at a time."""
    numbers = pa.array(range(min(SEGMENT_ROWS, kernels)), pa.int64())
    picks = pa.array([rng.randrange(len(_NAMES)) for _ in range(len(numbers))], pa.int32())
    for first in range(0, kernels, SEGMENT_ROWS):
        rows = min(SEGMENT_ROWS, kernels - first)
        number = pc.add(numbers.slice(0, rows), first)
        correlation = pc.add(number, 1)
        launched = pc.add(pc.multiply(number, PERIOD_NS), start_ns)
        yield _kernels(number, correlation, launched, picks.slice(0, rows)), _launches(number, correlation, launched)


def _kernels(number: Column, correlation: Column, launched: Column, picks: Column) -> pa.Table:
    rows = len(number)
    unsaid = ("collective_name", "dtype", "message_bytes", "group_id", "group_size_count", "sequence")
    columns: dict[str, Column] = {
        "event_id": number,
        "name": pa.DictionaryArray.from_arrays(picks, pa.array(_NAMES)),
        "start_ns": pc.add(launched, PERIOD_NS - KERNEL_NS),
        "duration_ns": pa.repeat(KERNEL_NS, rows),
        "device_index": pa.repeat(0, rows),
        "stream_id": pa.repeat(7, rows),
        "correlation_id": correlation,
        "grid_count": pa.repeat(132, rows),
        "block_count": pa.repeat(384, rows),
        "occupancy_ratio": pa.repeat(0.5, rows),
        **{name: pa.nulls(rows) for name in unsaid},
    }
    return pa.table(columns)


def _launches(number: Column, correlation: Column, launched: Column) -> pa.Table:
    rows = len(number)
    columns: dict[str, Column] = {
        "event_id": number,
        "api_name": pa.repeat("cudaLaunchKernel", rows),
        "thread_id": pa.repeat(_THREAD, rows),
        "start_ns": launched,
        "duration_ns": pa.repeat(LAUNCH_NS, rows),
        "correlation_id": correlation,
    }
    return pa.table(columns)


def _steps(kernels: int, start_ns: int) -> pa.Table:
    """One annotation per step, the last one shorter, which together cover the window."""
    firsts = range(0, kernels, STEP_KERNELS)
    rows = [
        Annotation(
            "host",
            f"step_{step}",
            _THREAD,
            start_ns + first * PERIOD_NS,
            min(STEP_KERNELS, kernels - first) * PERIOD_NS,
        )
        for step, first in enumerate(firsts)
    ]
    return arrow_table("annotation", rows, 0)
