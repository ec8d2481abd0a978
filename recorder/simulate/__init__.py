"""A seeded fleet in which the truth is known: what the demo shows, the tests expect and the benchmarks measure.

The same seed writes the same bytes. Nothing here reads a clock or a random device. docs/simulator.md lists what can be
wrong with a job, and what is then true.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tracelake.recorder.simulate.bulk import Bulk, simulate_kernels
from tracelake.recorder.simulate.counterfactual import fault_truths
from tracelake.recorder.simulate.faults import COMPUTE_KINDS, Fault
from tracelake.recorder.simulate.fleet import SECOND_NS, Job, day_start_ns, jobs, node, source_id
from tracelake.recorder.simulate.lake import Window, write_window
from tracelake.recorder.simulate.pipelined import bubble_ratio
from tracelake.recorder.simulate.play import Recorded, record
from tracelake.recorder.simulate.samples import sample
from tracelake.recorder.simulate.truth import DeviceTruth, FaultTruth, JobTruth, Truth, device_truth
from tracelake.recorder.simulate.truth_files import read_truths, write_truths
from tracelake.recorder.simulate.wide import Wide, simulate_wide

__all__ = [
    "Bulk",
    "DeviceTruth",
    "Fault",
    "FaultTruth",
    "Job",
    "JobTruth",
    "Truth",
    "Wide",
    "read_truths",
    "simulate_fleet",
    "simulate_job",
    "simulate_jobs",
    "simulate_kernels",
    "simulate_wide",
]

DAY = dt.date(2026, 11, 28)


def simulate_fleet(lake: Path, *, seed: int = 7, day: dt.date = DAY, scale: float = 1.0) -> Truth:
    """Write six jobs, each with a known fault, as raw segments. `scale` multiplies the number of steps."""
    written = tuple(simulate_job(lake, job, seed=seed, day=day) for job in jobs(scale))
    return Truth(seed, day.isoformat(), written)


def simulate_jobs(lake: Path, jobs: Sequence[Job], *, seed: int = 7, day: dt.date = DAY, workers: int = 1) -> Truth:
    """Write jobs, such as those of labelled.py, and what is true of each beside them (truth_files.py)."""
    write = partial(simulate_job, lake, seed=seed, day=day)
    if workers == 1:
        written = tuple(map(write, jobs))
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            written = tuple(pool.map(write, jobs, chunksize=4))
    write_truths(lake, written)
    return Truth(seed, day.isoformat(), written)


def simulate_job(lake: Path, job: Job, *, seed: int = 7, day: dt.date = DAY) -> JobTruth:
    """Write one job and say what is true of it."""
    day_ns = day_start_ns(day)
    recorded = record(job, seed, day_ns)
    devices = _write(lake, job, seed, day, recorded)
    offsets = {node(seed, job, number).node_id: job.clock_offset_ns(number) for number in range(job.nodes)}
    drifts = {node(seed, job, number).node_id: job.clock_drift_ppm(number) for number in range(job.nodes)}
    faults = fault_truths(job, seed, day_ns, recorded)
    return JobTruth(
        job_id=job.job_id,
        fault=job.fault_name,
        noise=job.noise.name,
        state=recorded[-1].state,
        world_size=job.world_size,
        guilty_node_id=next((fault.node_id for fault in faults if fault.node_id), None),
        compute_factors=_compute_factors(job),
        clock_offsets_ns=offsets,
        clock_drifts_ppm={name: ppm for name, ppm in drifts.items() if ppm},
        interrupted_source_ids=tuple(device.source_id for device in devices if device.window_ns is None),
        faults=faults,
        also_true=job.also_true,
        devices=devices,
        bubble_ratio=bubble_ratio(job.world_size, job.micro_batches) if job.micro_batches else None,
    )


def _write(lake: Path, job: Job, seed: int, day: dt.date, recorded: Iterable[Recorded]) -> tuple[DeviceTruth, ...]:
    """Write the windows; returns what is true of each."""
    day_ns, devices = day_start_ns(day), []
    previous: dict[tuple[int, int], str] = {}
    for window in recorded:
        number, events = job.node_of(window.rank), window.events
        machine, process = node(seed, job, number), (window.attempt, window.rank)
        tail = f"/{window.attempt}/{window.number}" if window.attempt or window.number else ""
        events.samples = sample(job, machine, window.rank, seed, events, day_ns, window=tail)
        window_id = source_id(seed, job, window.rank, events.window_start_ns)
        where = Window(
            job,
            machine,
            window.rank,
            window_id,
            day,
            job.clock_offset_ns(number),
            window.is_closed,
            window.state,
            window.attempt,
            previous.get(process),
            job.clock_drift_ppm(number),
            day_ns + job.start_second * SECOND_NS,
        )
        previous[process] = window_id
        write_window(lake, where, events)
        devices.append(
            device_truth(
                events,
                source_id=window_id,
                rank=window.rank,
                node_id=machine.node_id,
                device_id=machine.device_uuids[window.rank % job.devices_per_node],
                closed=window.is_closed,
                attempt=window.attempt,
            )
        )
    return tuple(devices)


def _compute_factors(job: Job) -> dict[int, float]:
    factors: dict[int, float] = {}
    for fault in job.faults:
        for rank in job.guilty(fault) if fault.kind in COMPUTE_KINDS else ():
            factors[rank] = factors.get(rank, 1) * (1 + fault.size)
    return factors
