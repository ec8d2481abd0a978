"""Findings against the truth: which faults are found, which findings are right, and how well their cost is told."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any

from tracelake.recorder.simulate.truth import FaultTruth, JobTruth

LEAST_PERSISTENT, LEAST_SINGLE = 0.10, 0.30
"""Smaller faults, relative to the usual step, may be missed: they are in no recall."""
_ROUNDING = 0.95
"""A fault that was sized for 10 % plays out near it."""
_COST_WITHIN = 0.10


@dataclass(frozen=True)
class Finding:
    """What matters of a row of aggregates.findings."""

    rule: str
    cause: str
    guilty_rank: int | None
    guilty_node_id: str | None
    lost_ns: int | None
    title: str

    @staticmethod
    def of(row: Mapping[str, Any]) -> Finding:
        return Finding(*[row[each.name] for each in fields(Finding)])


def is_required(fault: FaultTruth) -> bool:
    """Whether a fault must be found: expected, and large enough where it lengthens steps."""
    if fault.found_in == "nothing":
        return False
    if fault.ledger_class is None:
        return True
    least = LEAST_SINGLE if fault.found_in == "outlier_steps" else LEAST_PERSISTENT
    return fault.ratio >= least * _ROUNDING and (fault.nominal_ratio or 1.0) >= least


def is_named(fault: FaultTruth, finding: Finding) -> bool:
    """Whether a finding tells the fault's cause."""
    return finding.cause in (fault.cause, fault.idle_cause)


def is_placed(fault: FaultTruth, finding: Finding) -> bool:
    """Whether it blames the right rank or node, or nobody where events do not tell."""
    if not fault.ranks or not fault.shows_rank:
        return finding.guilty_rank is None
    if len(fault.ranks) > 1:
        return finding.guilty_node_id == fault.node_id or finding.guilty_rank in fault.ranks
    return finding.guilty_rank in fault.ranks


def is_right(truth: JobTruth, finding: Finding) -> bool:
    """Whether a finding is true of the job, by any of its faults, however small, or by the model itself."""
    return finding.cause in truth.also_true or any(
        is_named(fault, finding) and is_placed(fault, finding) for fault in truth.faults if fault.found_in != "nothing"
    )


def summary(truths: Sequence[JobTruth], found: Mapping[str, Sequence[Finding]]) -> dict[str, Any]:
    """Recall by kind of fault, precision by cause, cost, and the confusion table of a set of jobs."""
    recall: dict[str, Counter[str]] = defaultdict(Counter)
    precision: dict[str, Counter[str]] = defaultdict(Counter)
    confusion: dict[str, Counter[str]] = defaultdict(Counter)
    missed, false, costs = [], [], defaultdict(list)
    for truth in truths:
        told = found.get(truth.job_id, [])
        for fault in filter(is_required, truth.faults):
            named = [each for each in told if is_named(fault, each)]
            right = [each for each in named if is_placed(fault, each)]
            kind = f"{fault.kind} ({fault.found_in})"
            recall[kind].update(faults=1, cause=int(bool(named)), cause_and_place=int(bool(right)))
            confusion[kind].update({each.cause for each in told} or {"nothing"})
            if not right:
                missed.append(f"{truth.job_id} {kind} {fault.ratio:.2f} rank {fault.ranks}: {_titles(told)}")
            elif (error := _cost_error(fault, right)) is not None:
                costs[fault.found_in].append(error)
        for each in told:
            is_true = is_right(truth, each)
            precision[each.cause].update(findings=1, right=int(is_true))
            if not is_true:
                false.append(f"{truth.job_id} {truth.fault or 'healthy'} ({truth.noise}): {each.title}")
    whole, right = sum(c["faults"] for c in recall.values()), sum(c["cause_and_place"] for c in recall.values())
    said, true = sum(c["findings"] for c in precision.values()), sum(c["right"] for c in precision.values())
    return {
        "jobs": len(truths),
        "jobs_with_false_findings": len({line.split()[0] for line in false}),
        "recall": _ratio(right, whole),
        "precision": _ratio(true, said),
        "required_faults": whole,
        "findings": said,
        "recall_by_kind": {kind: dict(counts) for kind, counts in sorted(recall.items())},
        "precision_by_cause": {cause: dict(counts) for cause, counts in sorted(precision.items())},
        "confusion": {kind: dict(counts.most_common()) for kind, counts in sorted(confusion.items())},
        "cost": {where: _costs(errors) for where, errors in sorted(costs.items())},
        "missed": sorted(missed),
        "false": sorted(false),
    }


def _cost_error(fault: FaultTruth, right: Sequence[Finding]) -> float | None:
    """Told over true cost, less 1; of what never costs anything there is none."""
    lost = [each.lost_ns for each in right if each.lost_ns is not None and each.rule != "precision"]
    return sum(lost) / fault.cost_ns - 1 if lost and fault.cost_ns > 0 and fault.ledger_class else None


def _costs(errors: Sequence[float]) -> dict[str, float | int]:
    within = sum(abs(error) <= _COST_WITHIN for error in errors)
    return {
        "faults": len(errors),
        "median_error": round(median(errors), 3),
        "within_10_percent": _ratio(within, len(errors)),
        "median_absolute_error": round(median(map(abs, errors)), 3),
    }


def _titles(told: Sequence[Finding]) -> str:
    return "; ".join(each.title for each in told) or "nothing"


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 1.0
