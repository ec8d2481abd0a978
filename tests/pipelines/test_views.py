"""Views: what they declare is what they give, in every session, and their arithmetic is right."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth
from tracelake.schemas.catalog import table, tables, views
from tracelake.schemas.model import Table

HOUR = 3_600_000_000_000
START = 1_700_000_000_123_456_789
# Views that show each row of a table once, whatever they join.
ONE_TO_ONE = {
    "v_kernels": "kernels",
    "v_launches": "launches",
    "v_annotations": "annotations",
    "v_samples": "samples",
    "v_steps": "step_ledger",
    "v_windows": "sources",
    "v_waste": "job_summary",
    "v_findings": "findings",
    "v_jobs": "jobs",
    "v_goodput": "jobs",
    "v_runs": "runs",
    "v_quarantine": "quarantine",
}
Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def session(spark: SparkSession, small_fleet: tuple[Lake, Truth]) -> SparkSession:
    """A session other than the one that registered, as remote ones are."""
    small_fleet[0].register(spark)
    return spark.newSession()


@pytest.fixture
def ask(spark: SparkSession) -> Iterator[Ask]:
    """`ask(view, (TABLE, frame), …)`: the view over given frames in place of its tables."""
    shadowed: list[str] = []

    def over(view: str, *frames: tuple[Table, DataFrame]) -> list[dict[str, Any]]:
        assert {declared.name for declared, _ in frames} == set(views()[view].reads)
        for declared, frame in frames:
            frame.createOrReplaceTempView(declared.short_name)
            shadowed.append(declared.short_name)
        return [row.asDict() for row in spark.sql(views()[view].sql).collect()]

    yield over
    for name in shadowed:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("name", list(views()))
def test_a_view_reads_what_it_declares(name: str) -> None:
    view = views()[name]
    named = set(re.findall(r"\b(?:FROM|JOIN) (\w+)", view.sql)) - set(re.findall(r"(\w+) AS \(", view.sql))
    assert named == {read.partition(".")[2] for read in view.reads}
    assert set(view.reads) <= set(tables())


@pytest.mark.parametrize("name", list(views()))
def test_a_view_has_its_declared_columns_with_their_comments(session: SparkSession, name: str) -> None:
    found = [(f.name, f.dataType.simpleString(), f.metadata["comment"]) for f in session.table(name).schema]
    assert found == [(c.name, c.type.value, c.comment) for c in views()[name].columns]
    assert session.catalog.getTable(name).description == views()[name].comment


@pytest.mark.parametrize("name", list(ONE_TO_ONE))
def test_joins_neither_lose_nor_repeat_rows(session: SparkSession, name: str) -> None:
    rows = session.table(ONE_TO_ONE[name]).count()
    assert session.table(name).count() == rows
    assert rows or name == "v_quarantine"


def test_tables_are_described_by_their_bare_names(session: SparkSession) -> None:
    for name in ("normalized.kernels", "aggregates.device_ledger"):
        comments = {c.name: c.comment for c in table(name).columns}
        for known_as in (name, name.partition(".")[2]):
            found = {row["col_name"]: row["comment"] for row in session.sql(f"DESCRIBE {known_as}").collect()}
            assert {key: found[key] for key in comments} == comments


def test_a_lake_without_tables_answers_with_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    Lake(tmp_path).register(spark)
    for name in (*views(), "kernels", "runs"):
        assert spark.table(name).collect() == []


def test_kernels_carry_names(session: SparkSession, small_fleet: tuple[Lake, Truth]) -> None:
    small_fleet[0].register(session)
    job = small_fleet[1].job("slow_step")
    (row,) = session.sql(
        "SELECT count(*) AS kernels, count(device_name) AS named, count(annotation) AS annotated, "
        "count_if(step_index = step_occurrence) AS in_steps, count(step_name) AS stepped, "
        "sum(duration_us) AS us, count(DISTINCT device_id) AS devices "
        f"FROM v_kernels WHERE job_id = '{job.job_id}'"
    ).collect()
    assert row["kernels"] == row["named"] == row["annotated"] == job.counts["kernel"]
    assert row["in_steps"] == row["stepped"] > 0
    assert row["us"] == pytest.approx(sum(device.kernel_sum_ns for device in job.devices) / 1e3)
    assert row["devices"] == len(job.devices)


def test_waste_in_device_hours(rows: Callable[..., DataFrame], ask: Ask) -> None:
    jobs, summary, ledger = (
        table(n) for n in ("normalized.jobs", "aggregates.job_summary", "aggregates.device_ledger")
    )
    (some, none) = ask(
        "v_waste",
        (jobs, rows(jobs, {"job_id": "some", "project": "p"}, {"job_id": "none"})),
        (summary, rows(
            summary,
            {"job_id": "some", "device_time_ns": 8 * HOUR, "compute_ns": 5 * HOUR, "exposed_comm_ns": HOUR,
             "exposed_mem_ns": HOUR // 2, "idle_ns": 3 * HOUR // 2, "withheld_ns": 2 * HOUR},
            {"job_id": "none", "withheld_ns": HOUR},
        )),
        (ledger, rows(
            ledger,
            {"job_id": "some", "scope": "window"},
            {"job_id": "some", "scope": "window", "reason": "low_launch_coverage"},
            {"job_id": "some", "scope": "bucket", "reason": "not_of_a_window"},
            {"job_id": "none", "scope": "window", "reason": "gpu_capture_failed"},
        )),
    )  # fmt: skip
    assert (some["project"], some["device_hours"], some["compute_hours"], some["idle_hours"]) == ("p", 8, 5, 1.5)
    assert (some["exposed_comm_hours"], some["exposed_mem_hours"], some["wasted_hours"]) == (1, 0.5, 3)
    assert (some["wasted_ratio"], some["withheld_hours"]) == (0.375, 2)
    assert some["withheld_reasons"] == ["low_launch_coverage"]
    assert (none["wasted_hours"], none["wasted_ratio"], none["withheld_hours"]) == (None, None, 1)
    assert none["withheld_reasons"] == ["gpu_capture_failed"]


def test_kernel_time_by_class(rows: Callable[..., DataFrame], ask: Ask) -> None:
    stats = table("aggregates.kernel_stats")
    found = ask("v_kernel_time", (stats, rows(
        stats,
        {"job_id": "j", "name": "a", "kernel_class": "gemm", "kernel_count": 2, "duration_sum_ns": HOUR},
        {"job_id": "j", "name": "b", "kernel_class": "gemm", "kernel_count": 3, "duration_sum_ns": 2 * HOUR},
        {"job_id": "j", "name": "c", "kernel_class": "norm", "kernel_count": 1, "duration_sum_ns": HOUR},
        {"job_id": "empty", "name": "d", "kernel_class": "norm", "kernel_count": 1, "duration_sum_ns": 0},
    )))  # fmt: skip
    by_class = {(row["job_id"], row["kernel_class"]): row for row in found}
    gemm = by_class["j", "gemm"]
    assert (gemm["name_count"], gemm["kernel_count"], gemm["duration_sum_ns"]) == (2, 5, 3 * HOUR)
    assert (gemm["duration_sum_hours"], gemm["time_ratio"]) == (3, 0.75)
    assert by_class["j", "norm"]["time_ratio"] == 0.25
    assert by_class["empty", "norm"]["time_ratio"] is None


def test_a_job_shows_its_latest_attempt(rows: Callable[..., DataFrame], ask: Ask) -> None:
    jobs, summary = table("normalized.jobs"), table("aggregates.job_summary")
    (row,) = ask(
        "v_jobs",
        (jobs, rows(jobs, {"job_id": "j", "attempt_count": 2})),
        (summary, rows(
            summary,
            {"job_id": "j", "attempt": 0, "started_ns": START - HOUR},
            {"job_id": "j", "attempt": 1, "started_ns": START, "ended_ns": START + HOUR // 4,
             "device_time_ns": 2 * HOUR, "step_median_ns": 1_500_000, "step_max_ns": 2_000_000},
        )),
    )  # fmt: skip
    assert (row["attempt"], row["attempt_count"], row["wall_hours"], row["device_hours"]) == (1, 2, 0.25, 2)
    assert (row["step_median_ms"], row["step_max_ms"]) == (1.5, 2)
    assert row["started_utc"].astimezone(dt.timezone.utc).isoformat() == "2023-11-14T22:13:20.123456+00:00"


def test_the_parts_of_a_step_add_up(rows: Callable[..., DataFrame], ask: Ask) -> None:
    ledger = table("aggregates.step_ledger")
    (row,) = ask("v_steps", (ledger, rows(
        ledger,
        {"start_ns": START, "duration_ns": 36_000_000, "compute_ns": 1_000_000, "exposed_comm_ns": 2_000_000,
         "memcpy_ns": 3_000_000, "memset_ns": 4_000_000, "runtime_ns": 5_000_000, "data_loading_ns": 6_000_000,
         "host_work_ns": 7_000_000, "other_ns": 8_000_000},
    )))  # fmt: skip
    parts = [row[f"{n}_ms"] for n in
             ("compute", "exposed_comm", "memory", "runtime", "data_loading", "host_work", "other")]  # fmt: skip
    assert parts == [1, 2, 7, 5, 6, 7, 8]
    assert sum(parts) == row["duration_ms"] == 36


def test_what_bounds_a_step(rows: Callable[..., DataFrame], ask: Ask) -> None:
    path = table("aggregates.critical_path")

    def segment(number: int, rank: int, compute: int | None, other: int, **more: Any) -> dict[str, Any]:
        sum_ = None if compute is None else other
        return {"job_id": "j", "segment_number": number, "source_id": "s", "rank": rank, "other_ns": sum_,
                "compute_ns": compute, "duration_ns": (compute or 0) + other, **more}  # fmt: skip

    (known, without) = ask("v_critical_path", (path, rows(
        path,
        segment(0, 0, 3_000_000, 2_000_000),
        segment(1, 1, 1_000_000, 1_000_000),
        segment(2, 0, None, 3_000_000, reason="uncovered"),
        {"job_id": "without", "reason": "rank_missing", "source_id": None, "rank": None},
    )))  # fmt: skip
    assert (known["segment_count"], known["duration_ms"], known["reason"]) == (3, 10, "uncovered")
    assert (known["compute_ratio"], known["other_ratio"], known["bound_by"]) == (4 / 7, 3 / 7, "compute")
    assert (known["critical_rank"], known["critical_rank_ratio"]) == (0, 0.8)
    names = ("duration_ms", "compute_ratio", "bound_by", "critical_rank", "critical_rank_ratio")
    assert [without[name] for name in names] == [None] * len(names)
    assert (without["segment_count"], without["reason"]) == (0, "rank_missing")


def test_a_device_shows_its_windows_together(rows: Callable[..., DataFrame], ask: Ask) -> None:
    ledger, devices = table("aggregates.device_ledger"), table("normalized.devices")
    (row,) = ask(
        "v_devices",
        (ledger, rows(
            ledger,
            {"device_id": "d", "scope": "job", "window_ns": 4 * HOUR, "compute_ns": HOUR, "exposed_comm_ns": HOUR // 2,
             "exposed_mem_ns": HOUR // 4, "idle_ns": 9 * HOUR // 4},
            {"device_id": "d", "scope": "window", "window_ns": HOUR},
        )),
        (devices, rows(
            devices,
            {"device_id": "d", "source_id": "1", "name": "H100", "device_index": 3},
            {"device_id": "d", "source_id": "2", "name": "H100", "device_index": 3},
        )),
    )  # fmt: skip
    assert (row["device_name"], row["device_index"], row["window_count"]) == ("H100", 3, 2)
    parts = [row[f"{n}_hours"] for n in ("compute", "exposed_comm", "exposed_mem", "idle")]
    assert (parts, row["device_hours"]) == ([1, 0.5, 0.25, 2.25], 4)


def test_a_run_against_its_family(rows: Callable[..., DataFrame], ask: Ask) -> None:
    """Medians of 100 ms, then one of 120: a regression once the next run is as slow, mixed if it is not."""
    jobs, summary = table("normalized.jobs"), table("aggregates.job_summary")

    def verdicts(*medians: int) -> list[str]:
        of = {"project": "p", "family": "f", "instance_type": "i", "world_size": 8}
        found = ask(
            "v_regressions",
            (jobs, rows(jobs, *[{"job_id": f"{n:02}", **of} for n, _ in enumerate(medians)])),
            (summary, rows(summary, *[{"job_id": f"{n:02}", "started_ns": START + n * HOUR,
                                       "step_median_ns": ms * 1_000_000} for n, ms in enumerate(medians)])),
        )  # fmt: skip
        return [row["verdict"] for row in sorted(found, key=lambda row: row["job_id"])]

    before = (100, 101, 99, 100, 100)
    assert verdicts(*before) == ["INCONCLUSIVE"] * 5
    assert verdicts(*before, 104, 100)[5:] == ["EQUIVALENT"] * 2
    assert verdicts(*before, 120, 121)[5:] == ["REGRESSION", "INCONCLUSIVE"]
    assert verdicts(*before, 120, 100)[5:] == ["MIXED", "EQUIVALENT"]
    assert verdicts(*before, 80, 79)[5:] == ["IMPROVEMENT", "INCONCLUSIVE"]
    # Runs that differ by themselves: 3 times their spread is more than 5 %.
    assert verdicts(100, 90, 110, 95, 105, 120, 120)[5:] == ["EQUIVALENT"] * 2


def test_a_node_is_suspect_after_three_jobs_in_a_week(rows: Callable[..., DataFrame], ask: Ask) -> None:
    jobs, findings = table("normalized.jobs"), table("aggregates.findings")
    days = {"often": (0, 3, 7), "seldom": (0, 4, 8), "twice": (0, 1)}
    named = [(f"{node}-{day}", node, day) for node, on in days.items() for day in on]
    warned = {"severity": "warn", "cause": "compute", "lost_ns": HOUR, "evidence": ["a"]}
    found = ask(
        "v_suspect_nodes",
        (jobs, rows(jobs, *[{"job_id": job, "created_ns": START + day * 24 * HOUR} for job, _, day in named])),
        (findings, rows(
            findings,
            *[{"job_id": job, "guilty_node_id": node, "finding_number": n, **warned}
              for job, node, _ in named for n in (1, 2)],
            {"job_id": "twice-1", "guilty_node_id": "memory", "finding_number": 3, **warned, "severity": "info"},
        )),
    )  # fmt: skip
    (row,) = found
    assert (row["node_id"], row["job_count"], row["lost_hours"]) == ("often", 3, 6)
    assert (row["job_ids"], row["causes"]) == (["often-7", "often-3", "often-0"], ["compute"])
