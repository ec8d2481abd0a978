"""Upkeep changes files, never rows; retention takes jobs whole; a deleted job is nowhere."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.deletion import delete_job, is_known
from tracelake.pipelines.intake import pending, windows
from tracelake.pipelines.lake import Lake
from tracelake.pipelines.upkeep import Retention, live_files, maintain
from tracelake.recorder.segments import SourceWriter
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import raw_root

SYNCS, STATS = table("normalized.syncs"), table("aggregates.kernel_stats")
FILES, RUNS, JOBS = table("operations.files"), table("operations.runs"), table("normalized.jobs")
DAY, LATER = dt.date(2026, 1, 2), dt.date(2026, 3, 2)
NOW_NS = int(dt.datetime(2026, 3, 3, tzinfo=dt.UTC).timestamp() * 1e9)
OLD_NS = int(dt.datetime(2026, 1, 3, tzinfo=dt.UTC).timestamp() * 1e9)
DAYS_8 = 8 * 86_400


def _checksum(rows: DataFrame) -> tuple[Any, ...]:
    """Of the rows, whatever their order."""
    row = rows.select(F.count("*"), F.sum(F.xxhash64(*rows.columns).cast("decimal(38,0)"))).collect()[0]
    return tuple(row)


def _window(lake: Lake, job: str, source: str, day: dt.date = DAY) -> None:
    """A window's manifest, with a segment that only has to exist."""
    writer = SourceWriter(raw_root(lake.root), day.isoformat(), job, source)
    writer.close("complete", attempt=0)
    segment = raw_root(lake.root) / "kernel" / f"day={day}" / f"job={job}" / f"{source}-00000.parquet"
    segment.parent.mkdir(parents=True, exist_ok=True)
    segment.write_bytes(b"x" * 100)


def _bounded(lake: Lake, spark: SparkSession) -> set[tuple[str, ...]]:
    """Which of two columns have their bounds written, by file of `syncs`."""
    found = set()
    for file in live_files(lake, spark, SYNCS):
        group = pq.ParquetFile(lake.root / file).metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        has = {c.path_in_schema for c in columns if c.statistics is not None and c.statistics.has_min_max}
        found.add(tuple(sorted(has & {"job_id", "start_ns"})))
    return found


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "a lake")


def test_many_small_files_become_one_sorted_file_and_no_reader_notices(
    spark: SparkSession, rows: Any, lake: Lake
) -> None:
    for number in range(4):
        given = [{"job_id": f"j{i % 3}", "event_id": i, "start_ns": (7 * i + number) % 10, "day": d}
                 for i in range(10) for d in (DAY, LATER)]  # fmt: skip
        lake.append(rows(SYNCS, *given).coalesce(1), SYNCS)
    lake.append(rows(STATS, {"job_id": "a"}).coalesce(1), STATS)
    before = lake.read(spark, SYNCS.name)
    reader = before.toLocalIterator()
    seen = [next(reader)]
    expected = _checksum(before)
    orphan = Path(lake.path(SYNCS)) / f"day={DAY}" / "part-orphan.parquet"
    orphan.write_bytes(b"left by a writer that died")
    assert _bounded(lake, spark) == {("start_ns",)}
    os.utime(orphan, (time.time() - DAYS_8,) * 2)

    done = {each.table: each for each in maintain(lake, spark).tables}

    assert (done[SYNCS.name].files_before, done[SYNCS.name].files_after) == (8, 2)
    assert (done[STATS.name].files_before, done[STATS.name].files_after) == (1, 1)
    assert not orphan.exists()
    assert _bounded(lake, spark) == {("job_id", "start_ns")}
    assert done[SYNCS.name].removed_files == 1
    assert _checksum(lake.read(spark, SYNCS.name)) == expected
    assert _checksum(before) == expected, "planned before, collected after"
    for file in live_files(lake, spark, SYNCS):
        keys = [
            (row["job_id"], row["start_ns"]) for row in pq.read_table(lake.root / file, partitioning=None).to_pylist()
        ]
        assert keys == sorted(keys)
    # The files of the version that the reader began with are still there.
    seen += list(reader)
    assert len(seen) == expected[0] == 80
    again = maintain(lake, spark)
    assert (again.files_before, again.files_after, again.removed.files) == (3, 3, 0)


def test_retention_takes_old_jobs_whole_and_leaves_their_aggregates(spark: SparkSession, rows: Any, lake: Lake) -> None:
    known = {}
    for job, days in {"old": [DAY], "running": [DAY, LATER], "imported": [DAY], "waiting": [DAY]}.items():
        for number, day in enumerate(days):
            _window(lake, job, f"{job}-{number}", day)
    for window in windows(lake):
        if window.manifest.job_id != "waiting":
            known[window.manifest.source_id] = window
    taken = {"imported-0": NOW_NS}
    ledger = [
        {"day": dt.date.fromisoformat(w.manifest.day), "job_id": w.manifest.job_id, "source_id": source,
         "manifest_sha256": w.sha256, "taken_ns": taken.get(source, OLD_NS), "status": "stored"}
        for source, w in known.items()
    ]  # fmt: skip
    lake.replace(rows(FILES, *ledger), FILES, "true")
    lake.replace(rows(SYNCS, *[{k: row[k] for k in ("day", "job_id", "source_id")} for row in ledger]), SYNCS, "true")
    lake.replace(rows(STATS, {"job_id": "old"}, {"job_id": "running"}), STATS, "true")

    assert maintain(lake, spark, today=LATER).raw.files == 0, "nothing goes unless the settings say so"
    done = maintain(lake, spark, Retention(raw_days=30, normalized_days=30), today=LATER)

    assert done.expired_jobs == ("old",)
    assert (done.raw.files, done.expired_rows) == (2, 1)
    assert done.raw.bytes > 100
    assert {w.manifest.job_id for w in windows(lake)} == {"running", "imported", "waiting"}
    left = {row["job_id"] for row in lake.read(spark, SYNCS.name).select("job_id").distinct().collect()}
    assert left == {"running", "imported"}
    assert lake.read(spark, STATS.name).count() == 2
    statuses = {r["job_id"]: r["status"] for r in lake.read(spark, FILES.name).select("job_id", "status").collect()}
    assert statuses == {"old": "expired", "running": "stored", "imported": "stored"}
    _window(lake, "old", "old-1", LATER)
    assert [w.manifest.job_id for w in pending(lake, spark).windows] == ["waiting"]
    assert maintain(lake, spark, Retention(raw_days=30), today=LATER).raw.files == 0, "what was not taken in stays"


def test_a_deleted_job_leaves_no_trace(spark: SparkSession, rows: Any, lake: Lake) -> None:
    gone, kept = "gone-4711", "kept-4711"
    for job in (gone, kept):
        _window(lake, job, f"{job}-0")
    for declared in (SYNCS, STATS, JOBS, FILES):
        lake.append(rows(declared, {"job_id": gone}, {"job_id": kept}).coalesce(1), declared)
    lake.append(rows(RUNS, {"jobs": [gone, kept], "error": f"ValueError: {gone} is odd"}, {"jobs": []}), RUNS)
    reports = lake.root / "reports"
    reports.mkdir()
    own = (f"job-{gone}.html", f"timeline-{gone}.json.gz", f"timeline-{gone}@step-3.html")
    for page in (*own, f"job-{kept}.html", f"job-{gone}-2.html"):
        (reports / page).write_text("page")
    (reports / "index.html").write_text(f"<a>{gone}</a>")

    assert is_known(lake, spark, gone)
    done = delete_job(lake, spark, gone)

    assert not is_known(lake, spark, gone)
    assert (done.rows, done.raw.files) == (4, 2)
    assert {Path(page).name for page in done.pages} == set(own)
    assert [Path(page).name for page in done.naming] == ["index.html"]
    on_disk = [
        p for p in lake.root.rglob("*") if p.is_file() and "_delta_log" not in p.parts and str(p) not in done.naming
    ]
    assert [p for p in on_disk if gone.encode() in p.read_bytes()] == []
    for declared in (SYNCS, STATS, JOBS, FILES, RUNS):
        stored = spark.read.format("delta").load(lake.path(declared))
        assert stored.filter(F.to_json(F.struct("*")).contains(gone)).isEmpty()
        assert stored.filter(F.to_json(F.struct("*")).contains(kept)).count() == 1
    assert (reports / f"job-{gone}-2.html").exists()
    assert [w.manifest.job_id for w in windows(lake)] == [kept]
    assert spark.conf.get("spark.databricks.delta.retentionDurationCheck.enabled") == "true"


def test_files_of_a_deleted_job_can_stay_for_readers(spark: SparkSession, rows: Any, lake: Lake) -> None:
    lake.append(rows(SYNCS, {"job_id": "gone-4711"}).coalesce(1), SYNCS)
    done = delete_job(lake, spark, "gone-4711", keep_files=True)
    assert (done.rows, done.tables.files) == (1, 0)
    assert len(list(Path(lake.path(SYNCS)).rglob("part-*.parquet"))) == 1


def test_retention_settings_that_make_no_sense() -> None:
    assert Retention.from_mapping({"raw_days": 30}) == Retention(raw_days=30)
    for given, said in (({"raw": 3}, "no setting raw; there are raw_days"), ({"raw_days": 0}, "raw_days = 0; give")):
        with pytest.raises(ValueError, match=said):
            Retention.from_mapping(given)
