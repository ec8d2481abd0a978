"""Number cases about devices and ranks: 16, 18, 19 of CASES.md, and what holds for every case."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from case_inputs import CASES, UUIDS, all_jobs, job
from cases import IMPORTERS, US, Job
from pyspark.sql import SparkSession

SAME = {
    "kernels": ("start_ns", "end_ns", "effective_end_ns", "duration_ns", "launch_delay_ns", "queue_delay_ns", "name",
                "kernel_class", "precision", "step_name", "step_occurrence", "flags", "stream_id"),
    "launches": ("start_ns", "duration_ns", "api_name", "launch_delay_ns", "kernel_count", "step_name", "flags"),
    "memops": ("start_ns", "duration_ns", "kind", "direction"),
    "syncs": ("start_ns", "duration_ns", "kind", "is_blocking"),
    "annotations": ("start_ns", "duration_ns", "name", "index", "side", "depth", "is_step", "gpu_time_ns"),
    "job_summary": ("status", "device_count", "ranks_seen_count", "missing_ranks", "conflicting_ranks", "compute_ns",
                    "exposed_comm_ns", "exposed_mem_ns", "idle_ns", "sync_idle_ns", "gpu_active_ratio", "step_count",
                    "uncovered_step_count", "step_median_ns", "kernel_count", "launch_count", "kernel_sum_ns",
                    "launch_coverage_ratio", "started_ns", "ended_ns"),
    "step_ledger": ("step_name", "step_index", "step_occurrence", "duration_ns", "compute_ns", "exposed_comm_ns",
                    "memcpy_ns", "runtime_ns", "host_work_ns", "other_ns", "gpu_time_ns", "status", "reason"),
}  # fmt: skip
"""What may not depend on the importer."""


@pytest.fixture(params=IMPORTERS)
def case(request: pytest.FixtureRequest, spark: SparkSession) -> Callable[[str], Job]:
    return lambda name: job(spark, name, request.param)


def test_case_16_ranks_that_are_missing_or_claimed_twice(case: Callable[[str], Job]) -> None:
    found = case("16")
    assert found.summary["missing_ranks"] == [2]
    assert found.summary["conflicting_ranks"] == [1]
    assert (found.summary["ranks_seen_count"], found.summary["ranks_expected_count"]) == (2, 4)
    assert found.summary["device_count"] == 4
    assert {row["device_id"] for row in found.rows("kernels")} == set(UUIDS)
    assert sorted(row["rank"] for row in found.rows("sources")) == [0, 1, 1, 3]
    assert {"missing_ranks", "conflicting_ranks"} <= set(found.summary["reasons"])


def test_case_16_numbers_across_ranks_say_two_of_four(case: Callable[[str], Job]) -> None:
    found = case("16-collectives")
    matches = found.rows("collective_matches", is_reliable=True)
    assert [(row["ranks_seen_count"], row["ranks_expected_count"]) for row in matches] == [(2, 4)] * 4
    assert {(row["last_rank"], row["transfer_ns"], row["wait_sum_ns"]) for row in matches} == {(3, 20 * US, 30 * US)}
    waits = found.rows("collective_waits")
    assert {row["reason"] for row in waits if row["rank"] == 1} == {"conflicting_rank"}
    assert {row["wait_ns"] for row in waits if row["rank"] == 1} == {None}
    assert {row["reason"] for row in found.rows("rank_steps", rank=1)} == {"conflicting_rank"}
    assert [row["ranks_seen_count"] for row in found.rows("rank_steps", reason=None)] == [2, 2]
    assert found.rows("stragglers") == []
    assert found.summary["stragglers_reason"] == "too_few_steps"


def test_case_16_a_rank_that_nobody_gives(case: Callable[[str], Job]) -> None:
    source = case("16-norank").one("sources")
    assert source["rank"] is None
    assert "rank_missing" in source["flags"]
    assert case("16-norank").summary["stragglers_reason"] == "no_comparable_steps"


def test_case_16_samples_join_by_uuid(spark: SparkSession) -> None:
    found = job(spark, "16-sampler", "raw")
    index = {row["device_uuid"]: row["device_index"] for row in found.rows("devices")}
    assert index == {UUIDS[2]: 0, UUIDS[3]: 1}
    shown = defaultdict(set)
    for row in found.rows("utilization", metric="gpu_util_sampled_ratio"):
        if row["value_ratio"] is not None:
            shown[index.get(row["entity_id"])].add(row["value_ratio"])
    assert {device: shown[device] for device in (0, 1)} == {0: {0.3}, 1: {0.4}}


def test_case_18_overlapping_streams_are_not_summed(case: Callable[[str], Job]) -> None:
    found = case("18-streams")
    assert found.summary["kernel_count"] == 4
    assert found.summary["kernel_sum_ns"] == 210 * US
    assert (found.ledger["compute_ns"], found.ledger["window_ns"]) == (160 * US, 200 * US)
    assert found.ledger["gpu_active_ratio"] == found.summary["gpu_active_ratio"] == 0.8
    assert all(row["flags"] == ["orphan"] for row in found.rows("kernels"))


def test_case_18_one_stream_number_on_three_devices(case: Callable[[str], Job]) -> None:
    found = case("18-devices")
    streams = {(row["device_id"], row["stream_id"]): row["duration_ns"] for row in found.rows("kernels")}
    assert len(streams) == 3
    assert set(streams.values()) == {86 * US}
    assert [row["gpu_active_ratio"] for row in found.rows("device_ledger", scope="window")] == [0.86] * 3
    assert found.summary["gpu_active_ratio"] == 0.86
    node = found.rows("utilization", entity_kind="node", metric="gpu_active_ratio")
    assert all(0 <= row["value_ratio"] <= 1 for row in node)
    spent = sum(row["value_ratio"] * row["bucket_ns"] for row in node) / sum(row["bucket_ns"] for row in node)
    assert math.isclose(spent, 0.86)


def test_case_19_only_work_is_work(case: Callable[[str], Job]) -> None:
    found = case("19")
    ledger = found.ledger
    parts = [ledger[part] // US for part in ("compute_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns")]
    assert parts == [150, 100, 250, 0]
    assert (ledger["comm_ns"], ledger["overlapped_comm_ns"], ledger["comm_overlap_ratio"]) == (100 * US, 0, 0.0)
    assert (ledger["kernel_busy_ratio"], ledger["gpu_active_ratio"]) == (0.5, 1.0)
    assert ledger["window_ns"] == 500 * US
    assert found.summary["kernel_sum_ns"] == 250 * US
    assert found.summary["memop_count"] == 1
    assert len(found.rows("syncs")) == 1
    assert len(found.rows("annotations", side="device")) == 1
    (collective,) = found.rows("collective_waits")
    assert (collective["reason"], collective["match_method"], collective["wait_ns"]) == ("rank_missing", "none", None)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("name", CASES)
def test_both_importers_give_the_same_numbers(spark: SparkSession, name: str) -> None:
    for short, columns in SAME.items():
        both = []
        for importer in IMPORTERS:
            rows = job(spark, name, importer).rows(short)
            both.append(sorted((tuple(_plain(row[column]) for column in columns) for row in rows), key=repr))
        assert both[0] == both[1], short


def test_every_ratio_is_one_and_every_ledger_adds_up(spark: SparkSession) -> None:
    for found in all_jobs(spark):
        for name in ("device_ledger", "job_summary", "utilization"):
            for row in found.rows(name):
                ratios = {key: value for key, value in row.items() if key.endswith("_ratio") and value is not None}
                assert all(0 <= value <= 1 for value in ratios.values()), (found.job_id, name, ratios)
        for row in found.rows("device_ledger"):
            parts = [row[part] for part in ("compute_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns")]
            if row["reason"] in (None, "partly_withheld"):
                assert sum(parts) == row["window_ns"], row
            else:
                assert parts == [None] * 4, row
        for row in found.rows("sources"):
            kept = row["rows_stored"] + row["rows_quarantined"] + row["rows_deduplicated"] + row["rows_skipped"]
            assert row["rows_read"] == kept
