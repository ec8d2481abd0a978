"""What a fault costs: the job is played again without it, all else equal, and the steps are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from tracelake.recorder.simulate.events import RankEvents
from tracelake.recorder.simulate.faults import KINDS, Fault
from tracelake.recorder.simulate.fleet import Job, node
from tracelake.recorder.simulate.play import Recorded, play, play_alone
from tracelake.recorder.simulate.truth import FaultTruth

STRAGGLER_STEPS = 20
"""A rank is judged over at least so many steps (docs/metrics.md)."""


def fault_truths(job: Job, seed: int, day_ns: int, recorded: Sequence[Recorded]) -> tuple[FaultTruth, ...]:
    """The truth of each fault of a job."""
    timed = any(KINDS[fault.kind].ledger for fault in job.faults)
    ranks = play(job, seed, day_ns) if timed else []
    return tuple(
        _timed(job, fault, seed, day_ns, ranks)
        if KINDS[fault.kind].ledger
        else _redone(job, seed, fault, recorded)
        if fault.kind == "resumed"
        else _truth(job, seed, fault)
        for fault in job.faults
    )


def _timed(job: Job, fault: Fault, seed: int, day_ns: int, ranks: Sequence[RankEvents]) -> FaultTruth:
    healthy = play(job.without(fault), seed, day_ns)
    ended = min(len(events.steps) for events in (*ranks, *healthy))
    occurrences = _occurrences(job)
    touched = [step for step in fault.steps(ended) if step in occurrences]
    guilty = job.guilty(fault) or range(job.world_size)
    own = [_own_excess(job, fault, rank, seed, day_ns) for rank in guilty]
    return _truth(
        job,
        seed,
        fault,
        excess_ns={occurrences[step]: _slowest(ranks, step) - _slowest(healthy, step) for step in touched},
        own_excess_ns={occurrences[step]: max(excess[step] for excess in own) for step in touched},
        usual_step_ns=round(median(_slowest(healthy, step) for step in range(ended))),
    )


def _redone(job: Job, seed: int, fault: Fault, recorded: Sequence[Recorded]) -> FaultTruth:
    """The steps that the second attempt plays again, and all time from the first one's last step on until it is
    reached again."""
    first, again = ([window.events for window in recorded if window.attempt == attempt] for attempt in (0, 1))
    redone = fault.first - again[0].first_step
    lost_ns = again[0].steps[redone][0] - first[0].steps[-1][1]
    excess_ns = {step: _slowest(again, step) for step in range(redone)}
    usual_ns = round(median(_slowest(first, step) for step in range(len(first[0].steps))))
    cost_ns = lost_ns * job.world_size
    return _truth(job, seed, fault, excess_ns=excess_ns, usual_step_ns=usual_ns, cost_ns=cost_ns, attempt=1)


def _truth(
    job: Job,
    seed: int,
    fault: Fault,
    *,
    excess_ns: Mapping[int, int] | None = None,
    own_excess_ns: Mapping[int, int] | None = None,
    usual_step_ns: int = 0,
    cost_ns: int | None = None,
    attempt: int = 0,
) -> FaultTruth:
    kind, ranks, excess_ns = KINDS[fault.kind], job.guilty(fault), excess_ns or {}
    place = fault.node if fault.node is not None or fault.rank is None else job.node_of(fault.rank)
    return FaultTruth(
        kind=fault.kind,
        cause=fault.cause,
        ledger_class=kind.ledger,
        idle_cause=kind.idle,
        size=fault.size,
        unit=kind.unit,
        nominal_ratio=fault.nominal,
        found_in=_found_in(job, fault),
        ranks=ranks,
        node_id=None if place is None else node(seed, job, place).node_id,
        shows_rank=kind.shows_rank,
        attempt=attempt,
        excess_ns=excess_ns,
        own_excess_ns=own_excess_ns or {},
        usual_step_ns=usual_step_ns,
        cost_ns=sum(excess_ns.values()) * job.world_size if cost_ns is None else cost_ns,
    )


def _found_in(job: Job, fault: Fault) -> str:
    kind, steps = KINDS[fault.kind], fault.steps(job.steps)
    if not kind.is_expected:
        return "nothing"
    if kind.ledger is None:
        return {"killed_process": "sources", "resumed": "fleet_daily"}.get(fault.kind, "findings")
    if len(steps) < min(job.steps / 2, STRAGGLER_STEPS):
        return "outlier_steps"
    return "stragglers" if kind.shows_rank and job.guilty(fault) else "findings"


def _occurrences(job: Job) -> dict[int, int]:
    """By recorded step: how many recorded steps came before it."""
    recorded = [step for first, end in job.windows or ((0, job.steps),) for step in range(first, end)]
    return {step: number for number, step in enumerate(recorded)}


def _slowest(ranks: Iterable[RankEvents], step: int) -> int:
    return max(events.steps[step][1] - events.steps[step][0] for events in ranks)


def _own_excess(job: Job, fault: Fault, rank: int, seed: int, day_ns: int) -> list[int]:
    """By step: how much longer a rank takes, were it alone."""
    both = (play_alone(played, rank, seed, day_ns) for played in (job, job.without(fault)))
    durations = ([end - start for start, end in events.steps] for events in both)
    return [with_it - without for with_it, without in zip(*durations, strict=True)]
