"""Usual and unusual steps: warm-up, groups, drift, zero spread, and too few steps (case 24)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median_low
from typing import Any

import pytest
from expect import Row, Rows, Story, Told, small_data, story

from tracelake.pipelines.aggregates.step_times import step_times
from tracelake.schemas.catalog import table

MS = 1_000_000


def steps(durations: Sequence[int], rank: int = 0, **more: Any) -> list[Row]:
    """Steps of a rank, durations in milliseconds, one each second."""
    return [
        {
            "source_id": f"s{rank}", "rank": rank, "step_name": "step", "step_occurrence": number,
            "start_ns": number * 1_000 * MS, "duration_ns": length * MS, "status": "complete", **more,
        }
        for number, length in enumerate(durations)
    ]  # fmt: skip


def host(name: str, step: int, rank: int = 0) -> Row:
    at = step * 1_000 * MS + 5
    row = {"annotation_id": step, "source_id": f"s{rank}", "name": name, "start_ns": at, "end_ns": at + 9}
    return {**row, "duration_ns": 9}


def kinds(*runs: tuple[int, str], **more: Any) -> list[Row]:
    listed = [kind for count, kind in runs for _ in range(count)]
    return [{"step_occurrence": number, "kind": kind, **more} for number, kind in enumerate(listed)]


def one(durations: Sequence[int], *runs: tuple[int, str], **given: Any) -> Story:
    return story(step_ledger=steps(durations), **given, expect=kinds(*runs))


SAVED = [7, 15, 23, 31]

STORIES: dict[str, Story] = {
    "case 24a: of 99 equal steps and a longer one, exactly that is slow": one(
        [100] * 60 + [400] + [100] * 39, (60, "usual"), (1, "slow"), (39, "usual")
    ),
    "case 24b: equal steps have no outlier": one([100] * 100, (100, "usual")),
    "case 24c: the fast one is a class of its own": one(
        [100] * 50 + [400] + [100] * 20 + [20] + [100] * 28,
        (50, "usual"), (1, "slow"), (20, "usual"), (1, "fast"), (28, "usual"),
    ),
    "case 24d: a long first step is warm-up": one([5_000] + [100] * 99, (1, "warm_up"), (99, "usual")),
    "case 24e: three steps are too few": story(
        step_ledger=steps([100, 100, 400]),
        expect=kinds((3, "withheld"), reason="too_few_steps", score=None, median_ns=None, spread_ns=None),
    ),
    "eight steps suffice, beside the warm-up": one(
        [900] + [100] * 7 + [400], (1, "warm_up"), (7, "usual"), (1, "slow")
    ),
    "seven do not": one([900] + [100] * 6 + [400], (1, "warm_up"), (7, "withheld")),
    "a warm-up has at most ten steps": one([900] * 12 + [100] * 88, (10, "warm_up"), (2, "slow"), (88, "usual")),
    "the step is the slowest rank's": story(
        step_ledger=[*steps([100] * 20), *steps([100] * 10 + [300] + [100] * 9, rank=1)],
        expect=[{"duration_ns": (300 if n == 10 else 100) * MS, "slowest_rank": 1, "rank_count": 2,
                 "median_ns": 100 * MS, "spread_ns": MS, "score": 200.0 if n == 10 else 0.0} for n in range(20)],
    ),
    "longer by a fifth is not enough, however small the spread": one(
        [100] * 20 + [120, 121], (21, "usual"), (1, "slow")
    ),
    "wide noise has no outlier": one([70, 85, 100, 120, 140] * 10 + [150], (51, "usual")),
    "checkpoint and evaluation steps are no outliers of training": story(
        step_ledger=steps([300 if n in SAVED else 250 if n == 20 else 100 for n in range(40)]),
        annotations=[*[host("save_checkpoint", n) for n in SAVED], host("evaluation", 20)],
        expect=[{"step_group": "checkpoint" if n in SAVED else "evaluation" if n == 20 else "training",
                 "kind": "withheld" if n in (*SAVED, 20) else "usual"} for n in range(40)],
    ),
    "a checkpoint is judged among checkpoints, on whichever rank it is saved": story(
        step_ledger=[*steps([100] * 90),
                     *steps([900 if n == 49 else 300 if n % 10 == 9 else 100 for n in range(90)], rank=1)],
        annotations=[host("save_checkpoint", n, rank=1) for n in range(9, 90, 10)],
        expect=[{"kind": "slow" if n == 49 else "usual", "median_ns": (300 if n % 10 == 9 else 100) * MS}
                for n in range(90)],
    ),
    "drift over many steps has no outlier, a step far above its neighbours is one": one(
        [1_000 + 5 * n for n in range(600)][:400] + [6_000] + [1_000 + 5 * n for n in range(401, 600)],
        (400, "usual"), (1, "slow"), (199, "usual"),
    ),
    "uncovered, cut and withheld steps are no outliers (cases 13 and 25)": story(
        step_ledger=[
            *steps([100] * 20),
            *steps([1], step_occurrence=20, status="uncovered", reason="uncovered"),
            *steps([900], step_occurrence=21, status="cut", reason="capture_cut"),
            *steps([900], step_occurrence=22, reason="low_launch_coverage"),
            *steps([900], step_occurrence=23, reason="no_gpu_activity_captured"),
        ],
        expect=kinds((20, "usual")),
    ),
    "each attempt and each name of steps for itself": story(
        step_ledger=[*steps([100] * 10), *steps([300] * 10, attempt=1),
                     *steps([700] * 9 + [2_000], step_name="iter")],
        expect=[*[{"attempt": 0, "step_name": "iter", "kind": "usual", "median_ns": 700 * MS}] * 9,
                {"attempt": 0, "step_name": "iter", "kind": "slow", "median_ns": 700 * MS},
                *[{"attempt": 0, "step_name": "step", "kind": "usual", "median_ns": 100 * MS}] * 10,
                *[{"attempt": 1, "step_name": "step", "kind": "usual", "median_ns": 300 * MS}] * 10],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.step_times", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_step_times(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)


def test_medians_and_scores_are_those_of_the_nearest_steps(rows: Rows) -> None:
    rng = random.Random(4)
    jobs = {name: [rng.randint(90, 110) for _ in range(count)] for name, count in (("a", 199), ("b", 200), ("c", 431))}
    given = [row | {"job_id": name} for name, each in jobs.items() for row in steps(each)]
    ledger = rows(table("aggregates.step_ledger"), *given)
    with small_data(ledger.sparkSession):
        made = step_times(rows(table("normalized.annotations")), ledger).collect()
    got = {(row["job_id"], row["step_occurrence"]): (row["median_ns"], row["score"]) for row in made}
    for name, each in jobs.items():
        for number, x in enumerate(each):
            first = 0 if len(each) < 200 else max(0, min(number - 50, len(each) - 101))
            near = each[first : len(each) if len(each) < 200 else first + 101]
            m = median_low(near)
            mad = median_low([abs(y - m) for y in near])
            assert got[name, number] == (m * MS, pytest.approx((x - m) / max(1.4826 * mad, 0.01 * m)))
