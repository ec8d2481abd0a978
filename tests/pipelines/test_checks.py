"""Broken tables, made by hand, and exactly what their checks say: each outcome, each reason against a publication."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from quick import MOST, run_without

from tracelake.pipelines import checks
from tracelake.pipelines.aggregates import memop_stats
from tracelake.pipelines.lake import Lake, conform
from tracelake.pipelines.ledger import failed_rows
from tracelake.pipelines.measures import Measured, failing_rows, measured
from tracelake.pipelines.validation import Validator
from tracelake.pipelines.verdicts import outcomes, publication, verdict
from tracelake.recorder.simulate import Truth
from tracelake.schemas.catalog import table
from tracelake.schemas.columns import JOB_ID, SOURCE_ID, duration, number, ratio
from tracelake.schemas.model import Check, Column, Identity, Severity, Share, Table, Type

LIMIT = 0.01
PRECISION = "aggregates.precision_stats"
PARTS = Identity("parts_sum", "part_ns + rest_ns = whole_ns")


def _table(**more: Any) -> Table:
    """A table of windows with every sort of check."""
    plain: dict[str, Any] = {
        "name": "normalized.made",
        "grain": "one row per event",
        "key": ("job_id", "source_id", "id"),
    }
    columns = (
        JOB_ID,
        SOURCE_ID,
        number("id", "Number of the row."),
        duration("whole_ns", "The whole."),
        duration("part_ns", "A part of it.", nullable=True),
        duration("rest_ns", "The other part.", nullable=True),
        ratio("busy_ratio", "A ratio."),
        Column("odd", Type.BIGINT, "What should be even.", checks=(Check("even", "{column} % 2 = 0", Severity.WARN),)),
    )
    return Table(**{**plain, "columns": columns, "identities": (PARTS,), **more})


MADE = _table()
Rows = Callable[..., DataFrame]
Judge = Callable[..., tuple[dict[tuple[str, str], Any], dict[str, dict[str, Any]]]]


@pytest.fixture(scope="module")
def validator() -> Iterator[Validator]:
    with Validator() as started:
        yield started


@pytest.fixture
def judged(validator: Validator) -> Judge:
    """`judged(TABLE, rows)`: ({(job, check): outcome}, verdict per job), by the steps that a run takes."""

    def judge(
        declared: Table, rows: DataFrame, *, jobs: tuple[str, ...] = ("j",), raised: Mapping[str, str] | None = None
    ) -> tuple[dict[tuple[str, str], Any], dict[str, dict[str, Any]]]:
        found = _measured(declared, rows, jobs, raised or {})
        said = list(outcomes([(declared, found)], validator, LIMIT))
        for row in said:
            _agrees(row, found)
        by_check = {(row["job_id"], row["check_id"]): row for row in said if row["source_id"] is None}
        return by_check, {job: verdict(job, [row for row in said if row["job_id"] == job]) for job in jobs}

    return judge


def _measured(declared: Table, rows: DataFrame, jobs: tuple[str, ...], raised: Mapping[str, str]) -> list[Measured]:
    quarantine = table("operations.quarantine")
    aside = conform(failed_rows(rows, declared, "run", raised), quarantine)
    holding = checks.split(rows, declared, raised)[0]
    failing = failing_rows(aside, [declared.name])[declared.name]
    return measured(declared, holding, jobs, failing, LIMIT, raised)


def _agrees(row: Mapping[str, Any], found: list[Measured]) -> None:
    """Great Expectations says of each number what its limits say."""
    value = next(f for f in found if (f.job_id, f.source_id) == (row["job_id"], row["source_id"])).values[
        row["check_id"]
    ]
    low, high = (float(x) if x is not None else y for x, y in ((row["limit_min"], -1e99), (row["limit_max"], 1e99)))
    if row["outcome"] != "error":
        holds = "not_evaluated" if value is None else "passed" if low <= value <= high else "broken"
        assert row["outcome"] in {"broken": ("failed", "warned")}.get(holds, (holds,)), row


def _good(count: int, job: str = "j", source: str = "s", first: int = 0) -> list[dict[str, Any]]:
    row = {"job_id": job, "source_id": source, "whole_ns": 5, "part_ns": 2, "rest_ns": 3, "busy_ratio": 0.5}
    return [{**row, "id": first + number} for number in range(count)]


def _not_passed(by_check: Mapping[tuple[str, str], Any], job: str = "j") -> dict[str, Any]:
    return {
        check: (row["outcome"], row["measured"], row["failing_count"])
        for (of, check), row in by_check.items()
        if of == job and row["outcome"] != "passed"
    }


def test_a_table_where_all_holds(rows: Rows, judged: Judge) -> None:
    by_check, verdicts = judged(MADE, rows(MADE, *_good(3)))
    assert _not_passed(by_check) == {}
    assert by_check["j", "rows"]["measured"] == 3
    assert len(by_check) == 5 + 5 + 4, "rows, share, key, identity, warning; required columns; their own checks"
    assert (verdicts["j"]["is_publishable"], verdicts["j"]["passed_count"]) == (True, 14)


def test_a_key_that_comes_twice_stops_its_job_only(rows: Rows, judged: Judge) -> None:
    twice = [*_good(3), *_good(2), *_good(2, source="t"), *_good(4, job="other")]
    by_check, verdicts = judged(MADE, rows(MADE, *twice), jobs=("j", "other"))
    assert _not_passed(by_check) == {"key": ("failed", 2, 2)}
    assert verdicts["j"]["reasons"] == ["broken key: 2 rows of normalized.made repeat one"]
    assert verdicts["other"]["is_publishable"]


def test_keys_that_may_be_null_are_told_apart(rows: Rows, judged: Judge) -> None:
    declared = _table(name="aggregates.made", key=("job_id", "part_ns", "rest_ns"), identities=())
    one, other, again = ({**_good(1)[0], "part_ns": p, "rest_ns": r} for p, r in ((None, 7), (7, None), (None, 7)))
    assert _not_passed(judged(declared, rows(declared, one, other))[0]) == {}
    assert _not_passed(judged(declared, rows(declared, one, other, again))[0]) == {"key": ("failed", 1, 1)}


def test_a_broken_identity_stops_publication_and_keeps_its_rows(rows: Rows, judged: Judge) -> None:
    broken = [*_good(500), {**_good(1, first=500)[0], "rest_ns": 4}]
    by_check, verdicts = judged(MADE, rows(MADE, *broken))
    assert _not_passed(by_check) == {"parts_sum": ("failed", 1, 1)}
    assert by_check["j", "rows"]["measured"] == 501
    assert verdicts["j"]["reasons"] == ["broken identity: 1 row of normalized.made against parts_sum"]


def test_two_percent_of_failing_rows_stop_publication_and_half_a_percent_do_not(rows: Rows, judged: Judge) -> None:
    by_check, verdicts = judged(MADE, rows(MADE, *_good(98), *({**r, "whole_ns": -1} for r in _good(2, first=98))))
    assert _not_passed(by_check) == {"failing_rows": ("failed", 0.02, 2), "at_least_0:whole_ns": ("failed", 2, 2)}
    assert verdicts["j"]["reasons"] == ["failing_rows: 2 % of the rows of normalized.made, and 1 % may be"]
    by_check, verdicts = judged(MADE, rows(MADE, *_good(199), {**_good(1, first=199)[0], "busy_ratio": 1.5}))
    assert _not_passed(by_check) == {"between_0_1:busy_ratio": ("failed", 1, 1)}
    assert by_check["j", "failing_rows"]["measured"] == 0.005
    assert (verdicts["j"]["is_publishable"], verdicts["j"]["failed_count"]) == (True, 1)


def test_a_warning_counts_its_rows_and_stops_nothing(rows: Rows, judged: Judge) -> None:
    warned = [{**row, "odd": row["id"]} for row in _good(9)]
    by_check, verdicts = judged(MADE, rows(MADE, *warned))
    assert _not_passed(by_check) == {"even:odd": ("warned", 4, 4)}
    assert by_check["j", "rows"]["measured"] == 9
    assert (verdicts["j"]["is_publishable"], verdicts["j"]["warned_count"]) == (True, 1)


def test_a_required_column_that_is_all_null(rows: Rows, judged: Judge) -> None:
    # Spark would not make such a frame from a declaration that forbids NULL.
    nulls = rows(MADE, *_good(3)).selectExpr("* EXCEPT (odd)", "CAST(NULL AS BIGINT) AS odd")
    by_check, verdicts = judged(MADE, nulls)
    assert by_check["j", "null_odd"]["outcome"] == "failed"
    assert by_check["j", "null_odd"]["failing_count"] == 3
    assert by_check["j", "even:odd"]["outcome"] == "not_evaluated"
    assert by_check["j", "rows"]["outcome"] == "failed", "nothing is left"
    assert verdicts["j"]["reasons"] == [
        "empty table: normalized.made",
        "failing_rows: 100 % of the rows of normalized.made, and 1 % may be",
    ]


def test_a_nullable_column_that_is_all_null_is_not_evaluated(rows: Rows, judged: Judge) -> None:
    nulls = [{**row, "part_ns": None, "busy_ratio": None} for row in _good(3)]
    by_check, verdicts = judged(MADE, rows(MADE, *nulls))
    none = ("not_evaluated", None, None)
    assert _not_passed(by_check) == dict.fromkeys(("between_0_1:busy_ratio", "at_least_0:part_ns", "parts_sum"), none)
    assert by_check["j", "parts_sum"]["reason"] == "the columns hold no values"
    assert (verdicts["j"]["is_publishable"], verdicts["j"]["not_evaluated_count"]) == (True, 3)


@pytest.mark.parametrize("may_be_empty", [True, False])
def test_an_empty_table(rows: Rows, judged: Judge, may_be_empty: bool) -> None:
    declared = _table(may_be_empty=may_be_empty)
    by_check, verdicts = judged(declared, rows(declared))
    assert by_check["j", "rows"]["outcome"] == ("not_evaluated" if may_be_empty else "failed")
    others = {row["outcome"] for (_, check), row in by_check.items() if check != "rows"}
    assert others == {"not_evaluated"}
    assert verdicts["j"]["reasons"] == ([] if may_be_empty else ["empty table: normalized.made"])


def test_a_check_that_raises_is_an_error_for_the_job_that_it_raises_for(rows: Rows, judged: Judge) -> None:
    declared = _table(identities=(PARTS, Identity("overflows", f"whole_ns * {2**61} > 0")))
    by_check, verdicts = judged(
        declared,
        rows(declared, *_good(2), *({**row, "whole_ns": 0} for row in _good(2, job="other"))),
        jobs=("j", "other"),
    )
    assert by_check["j", "overflows"]["outcome"] == "error"
    assert "overflow" in by_check["j", "overflows"]["reason"]
    assert by_check["j", "parts_sum"]["outcome"] == "passed"
    assert verdicts["j"]["reasons"][0].startswith("check raised: overflows of normalized.made ([")
    assert by_check["other", "overflows"]["outcome"] == "failed"


def test_a_row_check_that_raises_while_writing_is_found_alone(rows: Rows, judged: Judge) -> None:
    bad = Check("sound", f"{{column}} * {2**61} >= 0")
    columns = (*MADE.columns[:3], Column("big", Type.BIGINT, "What overflows.", checks=(bad,)), *MADE.columns[3:])
    declared = _table(columns=columns)
    frame = rows(declared, *({**row, "big": 9} for row in _good(2)))
    raised = checks.raising(frame, declared)
    assert list(raised) == ["sound:big"]
    assert checks.raising(rows(MADE, *_good(2)), MADE) == {}
    by_check, verdicts = judged(declared, frame, raised=raised)
    assert {check: outcome for check, (outcome, *_) in _not_passed(by_check).items()} == {"sound:big": "error"}
    assert not verdicts["j"]["is_publishable"]


def test_rows_that_an_input_lost_are_a_share_of_what_was_read(rows: Rows, judged: Judge) -> None:
    declared = _table(identities=(), shares=(Share("lost", "part_ns", "whole_ns"),))
    few = [{**row, "whole_ns": 1000, "part_ns": number} for number, row in enumerate(_good(4))]
    assert judged(declared, rows(declared, *few))[0]["j", "lost"]["measured"] == 6 / 4000
    many = [{**few[0], "part_ns": 100}, *few[1:]]
    assert judged(declared, rows(declared, *many))[1]["j"]["reasons"] == [
        "lost: 2.65 % of the rows of normalized.made, and 1 % may be"
    ]


def test_windows_that_break_a_check_are_named(validator: Validator, rows: Rows) -> None:
    spoiled = [*_good(3), *_good(2, source="t"), {**_good(1, source="t", first=2)[0], "rest_ns": 9}]
    said = list(outcomes([(MADE, _measured(MADE, rows(MADE, *spoiled), ("j",), {}))], validator, LIMIT))
    windows = [row for row in said if row["source_id"]]
    assert [(row["source_id"], row["check_id"], row["failing_count"], row["row_count"]) for row in windows] == [
        ("t", "parts_sum", 1, 3)
    ]


def test_a_run_leaves_its_checks_and_may_be_published(spark: SparkSession, small_fleet: tuple[Lake, Truth]) -> None:
    lake, truth = small_fleet
    found = lake.read(spark, "operations.checks")
    assert {row["outcome"] for row in found.select("outcome").distinct().collect()} == {"passed", "not_evaluated"}
    jobs = {job.job_id for job in truth.jobs}
    assert {row["job_id"] for row in found.select("job_id").distinct().collect()} == jobs
    assert found.count() == found.select("job_id", "table_name", "check_id", "source_id").distinct().count()
    assert all(publication(lake, spark, job).is_publishable for job in jobs)
    assert publication(lake, spark, "nobody").reasons[0].startswith("it was not checked yet")
    (seconds, outcomes_) = lake.read(spark, "operations.runs").select("seconds", "checks").collect()[0]
    assert sum(map(int, outcomes_.values())) == found.count()
    assert float(seconds["check"]) > 0


def test_broken_tables_and_checks_that_raise_end_no_run(
    spark: SparkSession, small_fleet: tuple[Lake, Truth], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table's job that doubles one job's rows, and a row check that overflows while its table is written."""
    (lake, truth), broken = small_fleet, Lake(tmp_path)
    (tmp_path / "raw").symlink_to(lake.root / "raw")
    victim, other = sorted(job.job_id for job in truth.jobs)[:2]
    right, row_checks = memop_stats.memop_stats, checks.row_checks

    def doubled(memops: DataFrame) -> DataFrame:
        return right(memops).union(right(memops).filter(F.col("job_id") == victim))

    def raising(declared: Table) -> list[tuple[str, str]]:
        spoiled = {"at_least_0:kernel_count": f"kernel_count * {2**62} > 0"} if declared.name == PRECISION else {}
        return [(code, spoiled.get(code, predicate)) for code, predicate in row_checks(declared)]

    monkeypatch.setattr(memop_stats, "memop_stats", doubled)
    monkeypatch.setattr(checks, "row_checks", raising)
    left_out = {*MOST} - {"aggregates.memop_stats", PRECISION}
    done = run_without(*sorted(left_out))(broken, spark)
    said = {
        job: [reason.split(":")[0] for reason in publication(broken, spark, job).reasons] for job in (victim, other)
    }
    assert said == {victim: ["broken key", "check raised"], other: ["check raised"]}
    assert (done.checks["failed"], done.checks["error"]) == (1, 2)
    assert broken.read(spark, PRECISION).count() == lake.read(spark, PRECISION).count() > 0
