"""One coarse job on very many ranks: few kernels a step, made column by column, in the memory of one rank's window.

No rank is a copy of another. Two passes do it: what a rank does by itself follows from its seed alone, so a first pass
finds when the last rank joins each step's collective, and a second one writes rank after rank.
"""

from __future__ import annotations

import datetime as dt
import random
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from operator import sub
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracelake.recorder.simulate.fleet import H100, SECOND_NS, Job, day_start_ns, node, source_id
from tracelake.recorder.simulate.lake import Window, write_tables
from tracelake.recorder.simulate.player import COMM_STREAM, COMPUTE_STREAM, DATA_LOADING, WORLD_GROUP
from tracelake.recorder.simulate.workloads import LLM_BF16

DEVICES_PER_NODE = 8
BETWEEN_NS = 100_000
"""From the end of a step's collective to the start of the next step."""
LOADING_NS = 500_000
CALL_NS = 5_000
LAUNCH_EVERY_NS = 20_000
COMPUTE_NS = 20_000_000
"""Of a step, shared among its kernels."""
GAP_NS = 1_000
"""Between two kernels."""
TRANSFER_NS = 1_200_000
WAKE_UP_NS = 5_000
MARGIN_NS = 3_000_000
_JITTER_RATIO = 0.01
_LOADING_JITTER_NS = 40_000
_THREAD = 140_000_000_000_001
Column = Any
"""An Arrow array: what they hold is the tables' affair."""


@dataclass(frozen=True)
class Wide:
    """What is true of the job."""

    job_id: str
    ranks: int
    steps: int
    slow_rank: int
    slow_node_id: str
    slow_ratio: float
    """Compute kernels of the slow rank last this much longer."""
    excess_ns: dict[int, int]
    """By step: how much longer it lasts than if the slow rank were like the others."""
    step_durations_ns: tuple[int, ...]
    source_ids: tuple[str, ...]
    events_count: int
    bytes: int
    """Of all segments."""

    @property
    def cost_ns(self) -> int:
        """Device time that all ranks lose."""
        return sum(self.excess_ns.values()) * self.ranks


@dataclass(frozen=True)
class _Plan:
    """The job, and what each rank does by itself."""

    name: str
    ranks: int
    steps: int
    kernels: int
    slow_rank: int
    slow_ratio: float

    def own(self, rank: int) -> tuple[Sequence[int], Sequence[int]]:
        """By step: the wait for a batch, and compute time."""
        draw = random.Random(f"{self.name}/{rank}").random
        usual_ns = COMPUTE_NS * (1 + self.slow_ratio * (rank == self.slow_rank))
        loading = array("q", (LOADING_NS + int(draw() * _LOADING_JITTER_NS) for _ in range(self.steps)))
        compute = (int(usual_ns * (1 + _JITTER_RATIO * (2 * draw() - 1))) for _ in range(self.steps))
        return loading, array("q", compute)

    def arrival(self, rank: int) -> list[int]:
        """By step: how long after the end of the last collective the rank joins the next."""
        fixed_ns = BETWEEN_NS + CALL_NS + self.kernels * GAP_NS
        return [fixed_ns + loading + compute for loading, compute in zip(*self.own(rank), strict=True)]

    def last(self, ranks: Iterable[int], before: Sequence[int] = ()) -> list[int]:
        """By step: when the last of the ranks joins."""
        latest = list(before) or [0] * self.steps
        for rank in ranks:
            latest = list(map(max, latest, self.arrival(rank)))
        return latest


def simulate_wide(
    lake: Path,
    job_id: str = "wide",
    *,
    ranks: int = 1_024,
    steps: int = 1_000,
    kernels: int = 4,
    slow_ratio: float = 0.15,
    seed: int = 7,
    day: dt.date = dt.date(2026, 11, 28),
) -> Wide:
    """Write a job with `kernels` compute kernels and one all-reduce for each step and rank, and one slow rank."""
    nodes, devices = -(-ranks // DEVICES_PER_NODE), min(ranks, DEVICES_PER_NODE)
    if ranks < 1 or nodes * devices != ranks or not 0 < kernels <= COMPUTE_NS // LAUNCH_EVERY_NS // 2:
        raise ValueError(
            f"simulate_wide: {ranks} ranks, {kernels} kernels; give up to {DEVICES_PER_NODE} ranks or a multiple "
            f"of it, and 1 to {COMPUTE_NS // LAUNCH_EVERY_NS // 2} kernels"
        )
    slow_rank = random.Random(f"{seed}/{job_id}").randrange(ranks)
    plan = _Plan(f"{seed}/{job_id}", ranks, steps, kernels, slow_rank, slow_ratio)
    others = plan.last(rank for rank in range(ranks) if rank != slow_rank)
    joined, usual = plan.last([slow_rank], others), replace(plan, slow_ratio=0.0).last([slow_rank], others)
    job = Job(job_id, LLM_BF16, H100, nodes, devices, steps, 3_600, project="foundation", family="wide")
    start_ns = day_start_ns(day) + job.start_second * SECOND_NS
    ends = list(accumulate((late + TRANSFER_NS for late in joined), initial=start_ns))
    windows, events, size = [], 0, 0
    for rank in range(ranks):
        where = (node(seed, job, job.node_of(rank)), rank, source_id(seed, job, rank, start_ns))
        tables = _tables(plan, rank, ends)
        span, host = (start_ns, ends[-1] + MARGIN_NS), (start_ns + BETWEEN_NS, ends[-1] + WAKE_UP_NS)
        segments = write_tables(lake, Window(job, *where, day, 0, True, "completed"), tables, span, host)
        windows.append(where[-1])
        events += sum(rows.num_rows for rows in tables.values())
        size += sum(segment.bytes for segment in segments)
    return Wide(
        job_id,
        ranks,
        steps,
        slow_rank,
        node(seed, job, job.node_of(slow_rank)).node_id,
        slow_ratio,
        dict(enumerate(map(sub, joined, usual))),
        tuple(end + WAKE_UP_NS - start - BETWEEN_NS for start, end in pairwise(ends)),
        tuple(windows),
        events,
        size,
    )


def _tables(plan: _Plan, rank: int, ends: Sequence[int]) -> dict[str, pa.Table]:
    """The rank's rows by raw table."""
    loading, compute = (pa.array(column) for column in plan.own(rank))
    before, after = pa.array(ends[:-1]), pa.array(ends[1:])
    opened = pc.add(before, BETWEEN_NS)
    loaded = pc.add(opened, loading)
    calls = [pc.add(loaded, number * LAUNCH_EVERY_NS) for number in range(plan.kernels + 1)]
    synced = pc.add(calls[-1], LAUNCH_EVERY_NS)
    stepped = pc.subtract(pc.add(after, WAKE_UP_NS), opened)
    step = pa.array([f"step_{number}" for number in range(plan.steps)])
    texts = (step, pa.repeat(DATA_LOADING, plan.steps))
    correlation = range(1, plan.steps * (plan.kernels + 1) + 1)
    return {
        "kernel": _kernels(plan, loaded, compute, after),
        "launch": _table(
            api_name=pa.repeat("cudaLaunchKernel", len(correlation)).dictionary_encode(),
            thread_id=pa.repeat(_THREAD, len(correlation)),
            start_ns=_woven(calls),
            duration_ns=pa.repeat(CALL_NS, len(correlation)),
            correlation_id=pa.array(correlation),
        ),
        "sync": _table(
            kind=pa.repeat("stream_synchronize", plan.steps).dictionary_encode(),
            thread_id=pa.repeat(_THREAD, plan.steps),
            stream_id=pa.repeat(COMPUTE_STREAM, plan.steps),
            start_ns=synced,
            duration_ns=pc.subtract(pc.add(after, WAKE_UP_NS), synced),
            correlation_id=pa.array(range(len(correlation) + 1, len(correlation) + 1 + plan.steps)),
        ),
        "annotation": _table(
            side=pa.repeat("host", 2 * plan.steps).dictionary_encode(),
            text=_woven(texts),
            thread_id=pa.repeat(_THREAD, 2 * plan.steps),
            start_ns=_woven((opened, opened)),
            duration_ns=_woven((stepped, loading)),
        ),
    }


def _kernels(plan: _Plan, loaded: Column, compute: Column, after: Column) -> pa.Table:
    """Compute kernels of equal length, then the collective, which ends with the last rank's."""
    reduction, shapes = LLM_BF16.reduction, LLM_BF16.forward
    chosen = [shapes[number % len(shapes)] for number in range(plan.kernels)]
    part = pc.divide(compute, plan.kernels)
    first = pc.add(loaded, CALL_NS)
    starts = [pc.add(first, pc.multiply(pc.add(part, GAP_NS), number)) for number in range(plan.kernels)]
    joins = pc.add(first, pc.add(compute, plan.kernels * GAP_NS))
    names = [shape.name for shape in (*chosen, reduction.shape)]
    width = plan.kernels + 1

    def each(values: Sequence[Any], kind: Any = None) -> Column:
        """One value for each kernel of a step, step after step."""
        return pa.array(chain.from_iterable([list(values)] * plan.steps), kind, size=width * plan.steps)

    def comm(value: Any) -> Column:
        return each([None] * plan.kernels + [value])

    sequence = chain.from_iterable([None] * plan.kernels + [number] for number in range(plan.steps))
    return _table(
        name=pa.DictionaryArray.from_arrays(each(range(width), pa.int32()), names),
        start_ns=_woven((*starts, joins)),
        duration_ns=_woven((*[part] * plan.kernels, pc.subtract(after, joins))),
        device_index=each([0] * width),
        stream_id=each([COMPUTE_STREAM] * plan.kernels + [COMM_STREAM]),
        correlation_id=pa.array(range(1, width * plan.steps + 1)),
        grid_count=each([shape.grid_count for shape in (*chosen, reduction.shape)]),
        block_count=each([shape.block_count for shape in (*chosen, reduction.shape)]),
        occupancy_ratio=each([shape.occupancy_ratio for shape in (*chosen, reduction.shape)]),
        collective_name=comm(reduction.operation),
        dtype=comm(reduction.dtype),
        message_bytes=comm(reduction.message_bytes),
        group_id=comm(WORLD_GROUP),
        group_size_count=comm(plan.ranks),
        sequence=pa.array(sequence, pa.int64(), size=width * plan.steps),
    )


def _table(**columns: Column) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table({"event_id": pa.array(range(rows)), **columns})


def _woven(columns: Sequence[Column]) -> Column:
    """The first value of each column, then the second of each, and so on."""
    rows, width = len(columns[0]), len(columns)
    order = pa.array([part * rows + row for row in range(rows) for part in range(width)])
    return pc.take(pa.concat_arrays(columns), order)
