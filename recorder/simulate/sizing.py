"""How large a fault must be, in the unit of its kind, to add a wanted part to a model's usual step."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from statistics import median

from tracelake.recorder.simulate.faults import KINDS, Fault
from tracelake.recorder.simulate.fleet import A100, Job
from tracelake.recorder.simulate.noise import Noise
from tracelake.recorder.simulate.play import play
from tracelake.recorder.simulate.workloads import Workload

_SEED = 1
_STEPS = 7
"""Of the trial job; its first is a warm-up."""
_TRIES = 14
_CLOSE_RATIO = 0.01
_LEAST = {"launches": 1.0}
"""A size that does nothing, where that is not 0."""


def sized(workload: Workload, fault: Fault, ratio: float) -> Fault:
    """The fault with a size that adds `ratio` of the usual step to each step that it touches.

    Two ranks on two nodes, without noise, play some steps with and without it, in search of the size. `nominal` is what
    the size found adds there.
    """
    size, nominal = _sized(workload, fault.kind, fault.rank is None and fault.node is None, ratio)
    return replace(fault, size=size, nominal=nominal)


@lru_cache(maxsize=1024)
def _sized(workload: Workload, kind: str, is_everywhere: bool, ratio: float) -> tuple[float, float]:
    unit, usual_ns = KINDS[kind].unit, _usual_ns(workload)
    if unit == "ns":
        return round(usual_ns * ratio), ratio
    low, high = _LEAST.get(unit, 0.0), 0.0
    size = low + ratio
    for _ in range(_TRIES):
        found = _ns(workload, Fault(kind, size, rank=None if is_everywhere else 0)) / usual_ns - 1
        if abs(found - ratio) < _CLOSE_RATIO * ratio:
            break
        low, high = (size, high) if found < ratio else (low, size)
        # Until something is too large the size grows: at first it may cost nothing, hidden behind other work.
        size = (low + high) / 2 if high else 2 * size
    return size, round(found, 4)


@lru_cache(maxsize=64)
def _usual_ns(workload: Workload) -> float:
    return _ns(workload)


def _ns(workload: Workload, *faults: Fault) -> float:
    """Median step of the trial job."""
    job = Job("trial", workload, A100, 2, 1, _STEPS, 0, faults=faults, noise=Noise(kernel=0.0))
    ranks = play(job, _SEED, 0)
    steps = zip(*(events.steps[1:] for events in ranks), strict=True)
    return float(median(max(end - start for start, end in step) for step in steps))
