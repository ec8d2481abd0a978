"""Number cases about times and rows: 1, 3, 4, 5, 7 of CASES.md, through each importer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest
from case_inputs import job
from cases import BASE_NS, IMPORTERS, US, Job
from pyspark.sql import SparkSession

from tracelake.pipelines import checks
from tracelake.schemas.catalog import table
from tracelake.schemas.render.spark import ddl

LAST = (1 << 63) - 1


@pytest.fixture(params=IMPORTERS)
def case(request: pytest.FixtureRequest, spark: SparkSession) -> Callable[[str], Job]:
    return lambda name: job(spark, name, request.param)


def test_case_1_bytes_that_are_not_json(spark: SparkSession) -> None:
    found = job(spark, "1", "kineto")
    assert {row["name"] for row in found.rows("kernels")} == {"k\x01", "k\x02", "k\\x9f", "ké"}
    assert len(found.rows("kernel_stats")) == 4
    assert found.summary["kernel_sum_ns"] == 40 * US
    shares = [row["occupancy_ratio"] for row in found.rows("kernels") if row["occupancy_ratio"] is not None]
    assert sorted(shares) == [0.3, 0.5]
    flags = found.one("sources")["flags"]
    assert {"control_byte", "not_utf8", "token_not_json"} <= set(flags)


@pytest.mark.parametrize("importer", IMPORTERS)
def test_case_3_a_cut_recording(spark: SparkSession, importer: str) -> None:
    cut = job(spark, "3", importer)
    assert cut.summary["kernel_count"] == 700
    assert cut.summary["kernel_sum_ns"] == 7_000 * US
    assert cut.summary["status"] == "incomplete"
    assert (cut.ledger["window_ns"], cut.ledger["compute_ns"], cut.ledger["idle_ns"]) == (7_000 * US, 7_000 * US, 0)
    assert [row["status"] for row in cut.rows("step_ledger")] == ["complete", "complete", "cut", "cut"]
    assert cut.summary["step_count"] == 2
    assert cut.summary["step_max_ns"] == 3_000 * US


@pytest.mark.parametrize("importer", IMPORTERS)
def test_case_3_the_whole_one_replaces_it(spark: SparkSession, importer: str) -> None:
    whole = job(spark, "3", importer, later=True)
    assert len(whole.rows("kernels")) == 1000
    assert whole.summary["kernel_count"] == 1000
    assert whole.summary["kernel_sum_ns"] == 10_000 * US
    assert (whole.summary["status"], whole.summary["source_count"], whole.summary["step_count"]) == ("complete", 1, 4)
    assert whole.ledger["window_ns"] == 10_000 * US


def test_case_4_impossible_times(case: Callable[[str], Job]) -> None:
    found = case("4")
    assert (found.ledger["window_ns"], found.ledger["compute_ns"]) == (50 * US, 30 * US)
    assert found.ledger["gpu_active_ratio"] == 0.6
    assert found.summary["kernel_count"] == 3
    assert sorted(row["reason"] for row in found.rows("quarantine")) == [
        "negative_duration", "sentinel_time", "zero_time",
    ]  # fmt: skip
    source = found.one("sources")
    assert (source["rows_read"], source["rows_stored"], source["rows_quarantined"]) == (6, 3, 3)
    assert source["day"] == dt.date(2023, 11, 14)
    for row in found.rows("kernels"):
        assert row["day"] == dt.date(2023, 11, 14)
        assert BASE_NS <= row["start_ns"] <= row["end_ns"] <= BASE_NS + 50 * US


def test_case_4_a_wall_clock_that_steps_back(spark: SparkSession) -> None:
    found = job(spark, "4-sampler", "raw")
    samples = sorted(found.rows("samples"), key=lambda row: int(row["monotonic_ns"]))
    assert [row["value"] for row in samples] == [i / 10 for i in range(10)]
    source = found.one("sources")
    assert (source["window_start_ns"], source["window_end_ns"]) == (BASE_NS, BASE_NS + 5_000_000 * US)
    assert all(row["bucket_ns"] > 0 for row in found.rows("utilization"))
    assert all(row["bucket_start_ns"] >= BASE_NS for row in found.rows("utilization"))


@pytest.mark.parametrize(
    ("start", "duration", "reason"),
    [
        (1, 0, None),
        (0, 1, None),
        (0, 0, "zero_time"),
        (1000, -10, "negative_duration"),
        (LAST, 0, "sentinel_time"),
        (-LAST - 1, 5, "sentinel_time"),
        (-LAST - 1, 0, "sentinel_time"),
        (BASE_NS, 1 << 62, "sentinel_time"),
        (BASE_NS, LAST, "sentinel_time"),
    ],
)
def test_case_4_the_door_keeps_impossible_times_out(
    spark: SparkSession, start: int, duration: int, reason: str | None
) -> None:
    declared = table("raw.kernel")
    values = {"job_id": "j", "source_id": "s", "event_id": 0, "name": "k", "start_ns": start, "duration_ns": duration}
    rows = spark.createDataFrame([tuple(values.get(name) for name in declared.column_names)], ddl(declared))
    holding, failing = checks.split(rows, declared)
    assert [row["failed_check"] for row in failing.collect()] == ([reason] if reason else [])
    assert holding.count() == int(reason is None)


def test_case_5_the_display_hint_changes_nothing(case: Callable[[str], Job]) -> None:
    row = case("5-hint").one("kernels")
    assert (row["start_ns"], row["duration_ns"]) == (1_000_000, 250_000)


def test_case_5_kernels_below_a_microsecond(case: Callable[[str], Job]) -> None:
    found = case("5-short")
    stats = found.one("kernel_stats")
    assert stats["kernel_count"] == 1000
    assert stats["duration_sum_ns"] == 200_000
    assert stats["duration_mean_ns"] == 200
    assert stats["duration_min_ns"] == stats["duration_max_ns"] == 200
    assert found.rows("kernels")[0]["start_ns"] == 100_700


def test_case_7_ids_of_any_size_and_type(case: Callable[[str], Job]) -> None:
    found = case("7")
    lanes = {140589156634432, 140588800255680, 0, 1, 7, 3239786240}
    assert {row["thread_id"] for row in found.rows("annotations")} == lanes
    assert {row["stream_id"] for row in found.rows("kernels")} == lanes
    assert len(found.rows("annotations")) == len(found.rows("kernels")) == 7
    assert found.one("sources")["process_id"] == 7168000000
    assert found.rows("kernels")[0]["start_ns"] == 12_500


def test_case_7_a_bare_array_is_the_object_form(spark: SparkSession) -> None:
    bare, wrapped = job(spark, "7", "kineto"), job(spark, "7-object", "kineto")
    own = {"job_id", "source_id", "file", "file_sha256", "device_id", "read_bytes"}
    for name in ("kernels", "annotations", "sources"):
        rows = [[{k: v for k, v in row.items() if k not in own} for row in each.rows(name)] for each in (bare, wrapped)]
        assert rows[0] == rows[1]
