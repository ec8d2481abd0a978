"""What a job's faults do to one rank in one step."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tracelake.recorder.simulate.faults import COMPUTE_KINDS, Fault
from tracelake.recorder.simulate.fleet import Job


@dataclass
class Effect:
    """All faults together. Factors lengthen what is there; times come on top, on the rank's main thread."""

    compute: float = 1
    """Of every compute kernel."""
    matmul: float = 1
    """Of matrix products, which then run in fp32 outside tensor cores."""
    link: float = 1
    """Of the transfer of a collective that the rank is in."""
    python: float = 1
    """Of Python between two launches."""
    call: float = 1
    """Of the launching calls."""
    pieces: float = 1
    """Kernels that a kernel is split into, on average; they last as long together."""
    reads: float = 0
    """How many values the host reads after a compute kernel, on average."""
    loading_ns: int = 0
    work_ns: int = 0
    """Annotated work of the host before its first launch."""
    pause_ns: int = 0
    """The same, not annotated."""
    copy_ns: int = 0
    """Copies from pageable memory, which hold the host."""
    stall_ns: int = 0
    """A blocking synchronization while nothing runs."""
    checkpoint_ns: int = 0
    evaluation_ns: int = 0


_FACTORS = {"slow_link": "link", "slow_host": "python", "slow_launches": "call", "fp32_matmul": "matmul"}
_TIMES = {
    "data_loading": "loading_ns",
    "data_stall": "loading_ns",
    "late_rank": "work_ns",
    "python_pause": "pause_ns",
    "copy_bound": "copy_ns",
    "sync_stall": "stall_ns",
    "checkpoint": "checkpoint_ns",
    "evaluation": "evaluation_ns",
}


def effect(job: Job, rank: int, step: int, seed: int) -> Effect:
    """The effect of the faults that act on the rank in the step."""
    result = Effect()
    for fault in job.faults:
        if fault.touches(step) and job.suffers(fault, rank):
            _add(result, job, fault, step, seed)
    return result


def clock_factor(job: Job, rank: int, step: int) -> float:
    """How far samples show the clock below its highest, as a divisor."""
    factor = 1.0
    for fault in job.faults:
        if fault.is_throttling and fault.touches(step) and job.suffers(fault, rank):
            factor *= 1 + fault.size
    return factor


def _add(result: Effect, job: Job, fault: Fault, step: int, seed: int) -> None:
    kind, size = fault.kind, fault.size
    if kind in COMPUTE_KINDS:
        result.compute *= 1 + size
    elif kind == "drift":
        result.compute *= 1 + size * step / max(1, job.steps - 1)
    elif kind in _FACTORS:
        setattr(result, _FACTORS[kind], getattr(result, _FACTORS[kind]) * (1 + size))
    elif kind in _TIMES:
        setattr(result, _TIMES[kind], getattr(result, _TIMES[kind]) + _size_ns(job, fault, step, seed))
    elif kind == "warm_up":
        left = len(fault.steps(job.steps)) - (step - fault.first) // fault.every
        result.pause_ns += round(size * left / len(fault.steps(job.steps)))
    elif kind == "launch_bound":
        result.pieces = size
    elif kind == "excess_sync":
        result.reads = size


def _size_ns(job: Job, fault: Fault, step: int, seed: int) -> int:
    """The time of a step. Where it varies, ranks suffer alike: they read from one storage."""
    if not fault.spread:
        return round(fault.size)
    low, high = (round(fault.size * (1 + sign * fault.spread)) for sign in (-1, 1))
    return random.Random(f"{seed}/{job.job_id}/stall/{step}").randint(low, high)
