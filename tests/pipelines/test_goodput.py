"""Goodput: by hand over two attempts, unknown where it must be, and against a job whose restart the simulator knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from expect import Row, Rows, small_data
from pyspark.sql import DataFrame, SparkSession
from quick import only_for

from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import JobTruth, simulate_job
from tracelake.recorder.simulate.faults import Fault
from tracelake.recorder.simulate.fleet import Job, jobs
from tracelake.recorder.simulate.play import RESTART_NS
from tracelake.schemas.catalog import table, views

PARTS = (
    "initialization_ns", "checkpoint_ns", "redone_ns", "outside_steps_ns", "withheld_ns", "not_recorded_ns",
)  # fmt: skip
Goodput = Callable[..., dict[str, dict[str, Any]]]
Resumed = tuple[dict[str, Any], JobTruth, Job]


@pytest.fixture(scope="module")
def goodput(spark: SparkSession, rows: Rows) -> Goodput:
    """`goodput(jobs, summaries, times, findings)`: the view over these rows, by job; times are of fleet_daily."""

    def over(*given: list[Row]) -> dict[str, dict[str, Any]]:
        view = views()["v_goodput"]
        names = [table(name).short_name for name in view.reads]
        frames: list[DataFrame] = [rows(table(name), *its) for name, its in zip(view.reads, given, strict=True)]
        for name, frame in zip(names, frames, strict=True):
            frame.createOrReplaceTempView(name)
        try:
            with small_data(spark):
                return {row["job_id"]: row.asDict() for row in spark.sql(view.sql).collect()}
        finally:
            for name in names:
                spark.catalog.dropTempView(name)

    return over


def attempt(job: str, number: int, start: int, end: int, steps: int = 9) -> Row:
    return {"job_id": job, "attempt": number, "started_ns": start, "ended_ns": end, "step_count": steps}


def times(job: str, number: int, **causes: int) -> list[Row]:
    return [{"job_id": job, "attempt": number, "node_id": "n", "cause": c, "device_ns": ns} for c, ns in causes.items()]


def test_two_attempts_by_hand(goodput: Goodput) -> None:
    """Of 2 000 ns, 60 are unknown: (600 + 890) of the other 1 940 were inside steps that count."""
    first = times(
        "j", 0, productive=400, exposed_comm=150, data_loading=50, initialization=100, checkpoint=20, redone_steps=80,
    )  # fmt: skip
    second = times(
        "j", 1, productive=700, straggler_wait=60, exposed_mem=30, unknown=100, initialization=150, checkpoint=30,
        outside_steps=70, withheld=40, not_recorded=20,
    )  # fmt: skip
    found = goodput(
        [{"job_id": "j", "attempt_count": 2, "project": "p"}],
        [attempt("j", 0, 1_000, 1_400), attempt("j", 1, 1_450, 2_050)],
        [*first, *second],
        [{"job_id": "j", "rule": rule, "step_count": n} for rule, n in (("redone_steps", 3), ("slow_rank", 9))],
    )["j"]  # fmt: skip
    assert (found["attempt_count"], found["restart_count"], found["redone_step_count"]) == (2, 1, 3)
    assert (found["allocated_ns"], found["goodput_ns"], found["productive_ns"]) == (2_000, 1_490, 1_100)
    assert [found[part] for part in PARTS] == [250, 50, 80, 70, 40, 20]
    assert found["restart_gap_ns"] == 50
    assert (found["unknown_ratio"], found["reason"]) == (0.03, None)
    assert (found["goodput_ratio"], found["productive_ratio"]) == (1_490 / 1_940, 1_100 / 1_940)


UNKNOWN: dict[str, tuple[list[Row], list[Row]]] = {
    "no_allocation": ([attempt("j", 0, 0, 10), attempt("j", 1, 20, 30, steps=0)], []),
    "attempt_missing": ([attempt("j", 1, 0, 10)], times("j", 1, productive=10)),
    "much_withheld": ([attempt("j", 0, 0, 10)], times("j", 0, productive=88, withheld=7, not_recorded=5)),
    "much_not_recorded": ([attempt("j", 0, 0, 10)], times("j", 0, productive=88, not_recorded=12)),
    "no_steps": ([attempt("j", 0, 0, 10, steps=0)], times("j", 0, productive=90, not_recorded=10)),
}


@pytest.mark.parametrize("reason", UNKNOWN)
def test_what_cannot_be_known_has_no_ratio_but_a_reason(goodput: Goodput, reason: str) -> None:
    summaries, taken = UNKNOWN[reason]
    found = goodput([{"job_id": "j", "attempt_count": 1}], summaries, taken, [])["j"]
    assert (found["reason"], found["goodput_ratio"], found["productive_ratio"]) == (reason, None, None)
    assert found["allocated_ns"] == (sum(row["device_ns"] for row in taken) or None)
    assert (found["goodput_ns"] is None) == (found["allocated_ns"] is None)
    assert (found["productive_ns"] is None) == (found["allocated_ns"] is None)


def test_an_attempt_without_steps_is_none_of_the_goodput(goodput: Goodput) -> None:
    found = goodput(
        [{"job_id": "j", "attempt_count": 3}],
        [attempt("j", 0, 0, 100), attempt("j", 1, 90, 150, steps=0), attempt("j", 2, 160, 260)],
        [*times("j", 0, productive=100), *times("j", 1, productive=50, checkpoint=10), *times("j", 2, productive=100)],
        [],
    )["j"]
    assert (found["goodput_ns"], found["productive_ns"], found["outside_steps_ns"]) == (200, 200, 50)
    assert (found["goodput_ratio"], found["redone_step_count"]) == (200 / 260, 0)
    assert found["restart_gap_ns"] is None, "an attempt that begins before the last one ended: clocks that differ"


@pytest.fixture(scope="module")
def resumed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    lake = Lake(tmp_path_factory.mktemp("resumed"))
    like = next(job for job in jobs(0.0) if job.fault_name == "slow_step")
    job = Job(
        "resumed", like.workload, like.hardware, nodes=1, devices_per_node=2, steps=24, start_second=60,
        faults=(Fault("resumed", 4, first=14),),
    )  # fmt: skip
    truth = simulate_job(lake.root, job)
    only_for("fleet_daily", "findings")(lake, spark)
    lake.register(spark)
    (row,) = spark.table("v_goodput").collect()
    return row.asDict(), truth, job


def test_parts_and_goodput_are_the_allocation(resumed: Resumed) -> None:
    found = resumed[0]
    assert found["goodput_ns"] + sum(found[part] for part in PARTS) == found["allocated_ns"] > 0
    assert 0 < found["productive_ns"] < found["goodput_ns"]


def test_a_resumed_job_lost_the_steps_that_it_redid(resumed: Resumed) -> None:
    found, truth, job = resumed
    (fault,) = truth.faults
    assert (found["attempt_count"], found["restart_count"]) == (2, 1)
    assert found["redone_step_count"] == len(fault.excess_ns) == 4
    # The steps as the first attempt did them, on both devices.
    lost = sum(ns for d in truth.devices if d.attempt == 0 for ns in d.step_durations_ns[10:14])
    assert found["redone_ns"] == lost
    # As the second did them; the first of its steps has its warm-up besides.
    again = sum(ns for number, ns in fault.excess_ns.items() if number) * job.world_size
    assert lost * 3 / 4 == pytest.approx(again, rel=0.1)
    assert found["reason"] is None and 0 < found["productive_ratio"] < found["goodput_ratio"] < 1
    assert found["restart_gap_ns"] == RESTART_NS
