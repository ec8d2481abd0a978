"""Number cases about launches, steps and coverage: 10, 12, 13, 14, 22, 25 of CASES.md, through each importer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from case_inputs import GRAPH, job
from cases import BASE_NS, IMPORTERS, US, Job
from pyspark.sql import SparkSession

PARTS = ("compute_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns", "gpu_active_ratio", "kernel_busy_ratio")


@pytest.fixture(params=IMPORTERS)
def case(request: pytest.FixtureRequest, spark: SparkSession) -> Callable[[str], Job]:
    return lambda name: job(spark, name, request.param)


@pytest.mark.parametrize("name", ["10", "10-files"])
def test_case_10_links_stay_inside_a_process(case: Callable[[str], Job], name: str) -> None:
    found = case(name)
    launches, kernels = found.rows("launches"), found.rows("kernels")
    assert [row["launch_delay_ns"] for row in launches] == [10 * US, 10 * US]
    assert [row["launch_delay_ns"] for row in kernels] == [10 * US, 10 * US]
    assert [row["kernel_count"] for row in launches] == [1, 1]
    assert [row["source_id"] for row in launches] == [row["source_id"] for row in kernels]
    assert len({row["source_id"] for row in launches}) == 2
    assert len({row["device_id"] for row in kernels}) == 2
    processes = sorted(row["process_id"] for row in found.rows("sources"))
    assert processes == ([100, 200] if name == "10" else [1, 1])


def test_case_12_a_graph_launch_is_one_launch(case: Callable[[str], Job]) -> None:
    found = case("12")
    assert found.summary["launch_count"] == 2
    assert sum(row["duration_ns"] for row in found.rows("launches")) == 9 * US
    assert found.summary["kernel_count"] == 4
    assert found.summary["kernel_sum_ns"] == 40 * US
    graph = found.one("launch_stats", api_name=GRAPH)
    assert (graph["launch_count"], graph["kernel_count"], graph["duration_sum_ns"]) == (1, 3, 5 * US)
    stats = found.rows("launch_stats")
    assert sum(row["launch_delay_count"] for row in stats) == 2
    assert {row["launch_delay_mean_ns"] for row in stats} == {20 * US, 10 * US}
    delays = [row["launch_delay_ns"] for row in found.rows("kernels")]
    assert delays == [20 * US, None, None, 10 * US]


def test_case_13_a_lossy_capture_is_not_idle(case: Callable[[str], Job]) -> None:
    found = case("13-graphs")
    assert found.ledger["launch_coverage_ratio"] == 0.01
    assert found.summary["launch_coverage_ratio"] == 0.01
    for row in found.rows("device_ledger"):
        assert row["reason"] == "low_launch_coverage"
        assert all(row[part] is None for part in PARTS)
    assert all(found.summary[part] is None for part in PARTS)
    assert "low_launch_coverage" in found.summary["reasons"]
    assert found.summary["status"] == "degraded"
    assert not found.rows("idle_causes")


def test_case_13_uncovered_steps_are_not_fast(case: Callable[[str], Job]) -> None:
    found = case("13-steps")
    assert found.summary["kernel_count"] == 1591
    statuses = [row["status"] for row in found.rows("step_ledger")]
    assert statuses == ["complete", *["uncovered"] * 30, "complete"]
    assert found.summary["uncovered_step_count"] == 30
    assert found.summary["gpu_active_ratio"] is None
    assert {"low_launch_coverage", "uncovered_steps"} <= set(found.summary["reasons"])
    for row in found.rows("step_ledger", status="uncovered"):
        assert row["reason"] == "uncovered"
        assert row["compute_ns"] is None
        assert row["gpu_time_ns"] is None
    assert not found.rows("outlier_steps")
    assert (found.summary["slow_step_count"], found.summary["outlier_steps_reason"]) == (None, "uncovered")


def test_case_14_kernels_before_their_launch(case: Callable[[str], Job]) -> None:
    found = case("14")
    assert [row["launch_delay_ns"] for row in found.rows("launches")] == [None, 30 * US, 30 * US]
    stats = found.one("launch_stats")
    assert (stats["launch_delay_mean_ns"], stats["launch_delay_count"], stats["before_launch_count"]) == (30 * US, 2, 1)
    flags = Counter(flag for row in found.rows("kernels") for flag in row["flags"])
    assert flags == {"before_launch": 1, "orphan": 1}
    source = found.one("sources")
    assert (source["orphan_count"], source["device_clock_offset_ns"]) == (1, 40 * US)
    starts = [row["start_ns"] - BASE_NS for row in found.rows("kernels")]
    assert starts == [10 * US, 60 * US, 230 * US, 330 * US]
    assert (found.ledger["compute_ns"], found.ledger["window_ns"]) == (40 * US, 390 * US)
    assert [row["step_occurrence"] for row in found.rows("kernels")] == [None, 0, 0, 0]
    assert found.one("step_ledger")["gpu_time_ns"] == 30 * US


def test_case_22_steps_take_what_they_launch(case: Callable[[str], Job]) -> None:
    found = case("22")
    steps = {row["step_index"]: row for row in found.rows("step_ledger")}
    assert {index: row["gpu_time_ns"] for index, row in steps.items()} == {5: 70 * US, 6: 0}
    assert {index: row["duration_ns"] for index, row in steps.items()} == {5: 100 * US, 6: 100 * US}
    names = {row["annotation_id"]: row["text"] for row in found.rows("annotations")}
    assert [names[row["annotation_id"]] for row in found.rows("kernels")] == ["fwd", "ProfilerStep#5"]
    assert found.one("annotations", text="fwd")["gpu_time_ns"] == 10 * US
    copy = found.one("annotations", side="device")
    assert (copy["is_step"], copy["step_occurrence"]) == (False, None)


@pytest.mark.parametrize(
    ("name", "reason", "status"),
    [("25-launches", "gpu_capture_failed", "degraded"), ("25-cpu", "no_gpu_activity_captured", "complete")],
)
def test_case_25_no_device_event_is_not_idle(case: Callable[[str], Job], name: str, reason: str, status: str) -> None:
    found = case(name)
    assert found.one("sources")["gpu_reason"] == reason
    assert found.ledger["reason"] == reason
    assert all(found.ledger[part] is None for part in PARTS)
    assert all(found.summary[part] is None for part in PARTS)
    assert reason in found.summary["reasons"]
    assert found.summary["status"] == status
    assert found.summary["kernel_count"] == 0
    assert found.ledger["window_ns"] == 500 * US
