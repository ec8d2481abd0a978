"""Resource readings that agree with what the rank did: its device, and the cores of its node."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right

from tracelake.recorder.simulate.events import Interval, RankEvents, Sample
from tracelake.recorder.simulate.fleet import Job, Node
from tracelake.recorder.simulate.play import DATA_LOADING
from tracelake.recorder.simulate.truth import merge

PERIOD_NS = 100_000_000
"""The windows last seconds only, so the samplers are quicker than the recorder's usual half second."""
CORES = 8
INVALID_RATIO = 0.02
LOADING_NS = 20_000_000
"""A wait for data that lasts longer has the cores decoding at full load."""


def sample(job: Job, node: Node, rank: int, seed: int, events: RankEvents, day_ns: int) -> list[Sample]:
    """Readings of the rank's device; the first rank of a node reads the node's cores too."""
    rng = random.Random(f"{seed}/{job.job_id}/{rank}/samples")
    device = rank % job.devices_per_node
    busy = merge([(row.start_ns, row.start_ns + row.duration_ns) for row in events.kernels])
    waits = [(row.start_ns, row.duration_ns or 0) for row in events.annotations if row.text == DATA_LOADING]
    loading = merge([(start_ns, start_ns + wait_ns) for start_ns, wait_ns in waits if wait_ns > LOADING_NS])
    rows: list[Sample] = []
    for at_ns in range(events.window_start_ns + PERIOD_NS, events.window_end_ns + 1, PERIOD_NS):
        clock = (at_ns, at_ns - day_ns + node.boot_ns)
        for metric, unit, value in _device(job, rank, rng, events, busy, at_ns):
            rows.append(_reading(rng, clock, "device", node.device_uuids[device], metric, unit, value))
        for core in range(CORES if device == 0 else 0):
            value = _core(rng, core, _overlap(loading, at_ns, at_ns + 1) > 0)
            rows.append(_reading(rng, clock, "core", str(core), "cpu_util_ratio", "ratio", value))
    return rows


def _reading(
    rng: random.Random, clock: Interval, kind: str, entity: str, metric: str, unit: str, value: float
) -> Sample:
    if rng.random() < INVALID_RATIO:
        return Sample(*clock, kind, entity, metric, unit, None, False, "read_timeout")
    return Sample(*clock, kind, entity, metric, unit, value, True, None)


def _device(
    job: Job, rank: int, rng: random.Random, events: RankEvents, busy: list[Interval], at_ns: int
) -> list[tuple[str, str, float]]:
    """NVML counts in whole percent how much of the period had a kernel running."""
    util = round(_overlap(busy, at_ns - PERIOD_NS, at_ns) / PERIOD_NS, 2)
    machine = job.hardware
    step = bisect_right(events.steps, at_ns, key=_start) - 1
    clock_hz = machine.sm_clock_hz / job.compute_factor(rank, step)
    watts = machine.idle_watts + (machine.peak_watts - machine.idle_watts) * util * rng.uniform(0.82, 0.97)
    return [
        ("gpu_util_ratio", "ratio", util),
        ("power", "watts", round(watts, 3)),
        ("memory_used", "bytes", float(int(machine.memory_bytes * rng.uniform(0.71, 0.73)))),
        ("sm_clock", "hz", float(round(clock_hz, -6))),
    ]


def _core(rng: random.Random, core: int, is_loading: bool) -> float:
    """Half of the cores serve the ranks' main threads, the rest loads data."""
    low, high = (0.9, 1.0) if is_loading else (0.45, 0.85) if core < CORES // 2 else (0.0, 0.25)
    return round(rng.uniform(low, high), 3)


def _start(interval: Interval) -> int:
    return interval[0]


def _overlap(merged: list[Interval], start_ns: int, end_ns: int) -> int:
    """How much of [start, end) disjoint intervals in order cover."""
    first = max(0, bisect_right(merged, start_ns, key=_start) - 1)
    last = bisect_left(merged, end_ns, key=_start)
    return sum(max(0, min(end, end_ns) - max(start, start_ns)) for start, end in merged[first:last])
