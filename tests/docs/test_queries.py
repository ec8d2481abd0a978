"""The worked queries of docs/queries.md and docs/start-analyst.md run as they stand, and say what is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "queries.md").read_text()
QUERIES = {int(number): sql for number, sql in re.findall(r"^## (\d+)\. .*?```sql\n(.*?)```", PAGE, re.M | re.S)}


@pytest.fixture(scope="module")
def answers(spark: SparkSession, small_fleet: tuple[Lake, Truth]) -> dict[int, list[dict[str, Any]]]:
    small_fleet[0].register(spark)
    return {number: [row.asDict() for row in spark.sql(sql).collect()] for number, sql in QUERIES.items()}


def test_there_are_ten() -> None:
    assert list(QUERIES) == list(range(1, 11))
    assert PAGE.count("```sql") == 10


@pytest.mark.parametrize("number", list(QUERIES))
def test_a_query_has_an_answer(answers: dict[int, list[dict[str, Any]]], number: int) -> None:
    assert answers[number]


@pytest.mark.parametrize("query", re.findall(r"```sql\n(.*?)```", (DOCS / "start-analyst.md").read_text(), re.S))
def test_a_query_of_the_analysts_page_runs(
    answers: dict[int, list[dict[str, Any]]], spark: SparkSession, query: str
) -> None:
    assert answers  # the tables are registered
    spark.sql(query).collect()


def test_waste_is_what_the_devices_did_not_compute(
    answers: dict[int, list[dict[str, Any]]], small_fleet: tuple[Lake, Truth]
) -> None:
    job = small_fleet[1].job("slow_step")
    window = sum(device.window_ns or 0 for device in job.devices)
    wasted = window - sum(device.compute_ns for device in job.devices)
    (row,) = [row for row in answers[1] if row["job_id"] == job.job_id]
    assert row["wasted_hours"] == pytest.approx(wasted / 3.6e12, abs=0.00006)
    assert row["wasted_ratio"] == pytest.approx(wasted / window, abs=0.0006)
    assert row["withheld_reasons"] == []


def test_shares_of_a_project_add_up(answers: dict[int, list[dict[str, Any]]]) -> None:
    for row in answers[2]:
        assert sum(value for name, value in row.items() if name.endswith("_ratio")) == pytest.approx(1, abs=0.003)


def test_the_slow_step_and_the_guilty_rank(
    answers: dict[int, list[dict[str, Any]]], small_fleet: tuple[Lake, Truth]
) -> None:
    job = small_fleet[1].job("slow_step")
    row = answers[3][0]  # warm-up follows
    assert [row["step_occurrence"]] == list(job.excess_ns)
    assert (row["busiest_rank"],) == job.guilty_ranks
    longest = max(device.step_durations_ns[row["step_occurrence"]] for device in job.devices)
    assert row["slowest_ms"] == pytest.approx(longest / 1e6, abs=0.06)


def test_the_killed_process_is_the_recording_that_is_not_whole(
    answers: dict[int, list[dict[str, Any]]], small_fleet: tuple[Lake, Truth]
) -> None:
    job = small_fleet[1].job("killed_process")
    assert [(row["job_id"], row["rank"], row["status"]) for row in answers[9]] == [
        (job.job_id, rank, "interrupted") for rank in job.guilty_ranks
    ]
