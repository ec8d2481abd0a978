"""A seeded fleet in which the truth is known: what the demo shows, the tests expect and the benchmarks measure.

The same seed writes the same bytes. Nothing here reads a clock or a random device.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

from tracelake.recorder.simulate.bulk import Bulk, simulate_kernels
from tracelake.recorder.simulate.fleet import Fault, Job, day_start_ns, jobs, node, source_id
from tracelake.recorder.simulate.lake import Window, write_window
from tracelake.recorder.simulate.play import play
from tracelake.recorder.simulate.samples import sample
from tracelake.recorder.simulate.truth import DeviceTruth, JobTruth, Truth, device_truth, excess

__all__ = ["Bulk", "DeviceTruth", "JobTruth", "Truth", "simulate_fleet", "simulate_job", "simulate_kernels"]

DAY = dt.date(2026, 11, 28)


def simulate_fleet(lake: Path, *, seed: int = 7, day: dt.date = DAY, scale: float = 1.0) -> Truth:
    """Write six jobs, each with a known fault, as raw segments. `scale` multiplies the number of steps."""
    written = tuple(simulate_job(lake, job, seed=seed, day=day) for job in jobs(scale))
    return Truth(seed, day.isoformat(), written)


def simulate_job(lake: Path, job: Job, *, seed: int = 7, day: dt.date = DAY) -> JobTruth:
    """Write one job and say what is true of it."""
    day_ns = day_start_ns(day)
    ranks = play(job, seed, day_ns)
    killed = job.guilty_ranks if job.fault.kind == "killed_process" else ()
    state = "failed" if killed else "completed"
    devices, offsets = [], {}
    for rank, events in enumerate(ranks):
        machine = node(seed, job, job.node_of(rank))
        events.samples = sample(job, machine, rank, seed, events, day_ns)
        offsets[machine.node_id] = offset_ns = job.clock_offset_ns(job.node_of(rank))
        window_id, closed = source_id(seed, job, rank, events.window_start_ns), rank not in killed
        write_window(lake, Window(job, machine, rank, window_id, day, offset_ns, closed, state), events)
        device_id = machine.device_uuids[rank % job.devices_per_node]
        devices.append(
            device_truth(
                events, source_id=window_id, rank=rank, node_id=machine.node_id, device_id=device_id, closed=closed
            )
        )
    faulty = job.faulty_steps
    healthy = play(replace(job, fault=Fault()), seed, day_ns) if faulty else ranks
    return JobTruth(
        job_id=job.job_id,
        fault=job.fault.kind,
        state=state,
        guilty_node_id=None if job.fault.node is None else node(seed, job, job.fault.node).node_id,
        guilty_ranks=job.guilty_ranks,
        excess_ns=excess(ranks, healthy, faulty),
        compute_factors={rank: job.compute_factor(rank, faulty[0]) for rank in job.guilty_ranks} if faulty else {},
        clock_offsets_ns=offsets,
        interrupted_source_ids=tuple(devices[rank].source_id for rank in killed),
        devices=tuple(devices),
    )
