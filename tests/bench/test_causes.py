"""The score of findings against the truth, by hand: a ruler must not bend."""

from __future__ import annotations

from typing import Any

import pytest

from bench.causes.score import Finding, is_required, summary
from tracelake.recorder.simulate.truth import FaultTruth, JobTruth

SLOW_RANK: dict[str, Any] = {
    "kind": "slow_rank", "cause": "compute", "ledger_class": "compute", "idle_cause": None, "size": 0.25,
    "unit": "ratio", "nominal_ratio": 0.25, "found_in": "stragglers", "ranks": (3,), "node_id": "n", "shows_rank": True,
    "attempt": 0, "excess_ns": {0: 25, 1: 25}, "own_excess_ns": {}, "usual_step_ns": 100, "cost_ns": 200,
}  # fmt: skip
RIGHT = Finding("slow_rank", "compute", 3, "n", 210, "rank 3")
OTHER_RANK = Finding("slow_rank", "compute", 2, "n", 210, "rank 2")
PYTHON = Finding("usual_step", "python_or_other", None, None, 5, "python")


def job(*faults: dict[str, Any], also_true: tuple[str, ...] = ()) -> JobTruth:
    told = tuple(FaultTruth(**{**SLOW_RANK, **fault}) for fault in faults)
    fault = "+".join(each.kind for each in told)
    return JobTruth("j", fault, "quiet", "completed", 4, None, {}, {}, {}, (), told, also_true, ())


@pytest.mark.parametrize(
    ("truth", "told", "recall", "precision"),
    [
        (job({}), [RIGHT], 1.0, 1.0),
        (job({}), [], 0.0, 1.0),
        (job({}), [OTHER_RANK], 0.0, 0.0),
        (job({}), [RIGHT, PYTHON], 1.0, 0.5),
        (job({}, also_true=("python_or_other",)), [RIGHT, PYTHON], 1.0, 1.0),
        (job(), [PYTHON], 1.0, 0.0),
        (job({"ranks": (2, 3)}), [RIGHT], 1.0, 1.0),
        (job({"ranks": (), "shows_rank": False}), [RIGHT], 0.0, 0.0),
        (job({"found_in": "nothing"}), [RIGHT], 1.0, 0.0),
    ],
)
def test_recall_and_precision(truth: JobTruth, told: list[Finding], recall: float, precision: float) -> None:
    score = summary([truth], {"j": told})
    assert (score["recall"], score["precision"]) == (recall, precision)


def test_cost_and_confusion() -> None:
    score = summary([job({})], {"j": [RIGHT]})
    assert score["cost"] == {
        "stragglers": {"faults": 1, "median_error": 0.05, "within_10_percent": 1.0, "median_absolute_error": 0.05}
    }
    assert score["confusion"] == {"slow_rank (stragglers)": {"compute": 1}}
    assert summary([job({})], {})["confusion"] == {"slow_rank (stragglers)": {"nothing": 1}}


@pytest.mark.parametrize(
    ("fault", "required"),
    [
        ({}, True),
        ({"excess_ns": {0: 5}, "nominal_ratio": 0.05}, False),
        ({"found_in": "outlier_steps", "excess_ns": {0: 29}, "nominal_ratio": 0.3}, True),
        ({"found_in": "outlier_steps", "excess_ns": {0: 21}, "nominal_ratio": 0.2}, False),
        ({"found_in": "nothing"}, False),
        ({"ledger_class": None, "nominal_ratio": None, "excess_ns": {}}, True),
    ],
)
def test_what_must_be_found(fault: dict[str, Any], required: bool) -> None:
    assert is_required(FaultTruth(**{**SLOW_RANK, **fault})) is required
