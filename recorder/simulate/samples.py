"""Resource readings that agree with what the rank did: its device, and the cores of its node."""

from __future__ import annotations

import random
from bisect import bisect_right

from tracelake.recorder.simulate.effects import clock_factor
from tracelake.recorder.simulate.events import Interval, RankEvents, Sample
from tracelake.recorder.simulate.fleet import Job, Node
from tracelake.recorder.simulate.intervals import merge, overlap, start_of
from tracelake.recorder.simulate.player import DATA_LOADING

PERIOD_NS = 100_000_000
"""The windows last seconds only, so the samplers are quicker than the recorder's usual half second."""
CORES = 8
INVALID_RATIO = 0.02
FULL_RATIO = 0.995
CAPPED_RATIO = 0.1
POWER_CAP, THERMAL_SLOWDOWN = 0x4, 0x20
"""Bits of nvmlClocksEventReasons: software power cap, software thermal slowdown."""
LOADING_NS = 20_000_000
"""A wait for data that lasts longer has the cores decoding at full load."""


def sample(
    job: Job, node: Node, rank: int, seed: int, events: RankEvents, day_ns: int, *, window: str = ""
) -> list[Sample]:
    """Readings of the rank's device; the first rank of a node reads the node's cores too.

    `window` tells the windows of a rank apart.
    """
    rng = random.Random(f"{seed}/{job.job_id}/{rank}/samples{window}")
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
            value = _core(rng, core, overlap(loading, at_ns, at_ns + 1) > 0)
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
    util = round(overlap(busy, at_ns - PERIOD_NS, at_ns) / PERIOD_NS, 2)
    machine = job.hardware
    step = bisect_right(events.steps, at_ns, key=start_of) - 1 + events.first_step
    slower = clock_factor(job, rank, step)
    clock_hz = machine.sm_clock_hz / slower
    watts = machine.idle_watts + (machine.peak_watts - machine.idle_watts) * util * rng.uniform(0.82, 0.97)
    memory = min(FULL_RATIO, rng.uniform(0.71, 0.73) + _leaked(job, rank, step))
    readings = [
        ("gpu_util_ratio", "ratio", util),
        ("power", "watts", round(watts, 3)),
        ("memory_used", "bytes", float(int(machine.memory_bytes * memory))),
        ("sm_clock", "hz", float(round(clock_hz, -6))),
    ]
    if job.reads_reasons:
        # A power cap that costs nothing is common; heat is what a throttled device says.
        bits = (POWER_CAP if rng.random() < CAPPED_RATIO else 0) | (THERMAL_SLOWDOWN if slower > 1 else 0)
        readings.append(("clock_event_reasons", "bits", float(bits)))
    return readings


def _leaked(job: Job, rank: int, step: int) -> float:
    """How much of the device's memory a leak holds by now; it grows evenly and reaches its size at the job's end."""
    leaks = (fault for fault in job.faults if fault.kind == "memory_leak" and job.suffers(fault, rank))
    return sum(fault.size * max(0, step - fault.first) / max(1, job.steps - 1 - fault.first) for fault in leaks)


def _core(rng: random.Random, core: int, is_loading: bool) -> float:
    """Half of the cores serve the ranks' main threads, the rest loads data."""
    low, high = (0.9, 1.0) if is_loading else (0.45, 0.85) if core < CORES // 2 else (0.0, 0.25)
    return round(rng.uniform(low, high), 3)
