"""Which pages are older than what they show. The lake itself says so: operations.files and operations.pages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.functions.local import local_frame
from tracelake.pipelines.lake import Lake, conform, one_of
from tracelake.reports.files import INDEX_FILE, fleet_file, job_file
from tracelake.schemas.catalog import table
from tracelake.schemas.render.spark import ddl


@dataclass(frozen=True)
class Due:
    """Jobs and days whose page is to be made, each with the last run that wrote what it will show."""

    jobs: Mapping[str, str]
    days: Mapping[str, str]
    index: str | None
    """The last run of all, where the list of jobs is to be made."""


def due(lake: Lake, spark: SparkSession) -> Due:
    """Pages that are gone, that no night made, or whose jobs a later run has touched. Read before pages are made.

    A run is known by its id, never by a time: clocks of S3 and of this machine may differ, and a run may end while a
    page is made. Ids sort by time.
    """
    newest = _newest_runs(lake, spark)
    there = {file.key for file in lake.storage.below("reports").files()}
    shown = {
        row.page: row.shown_run_id
        for row in lake.read(spark, "operations.pages").toLocalIterator()
        if row.page in there
    }
    # Without a summary (all of the job's windows are in quarantine) there is nothing to show.
    with_rows = newest.join(lake.read(spark, "aggregates.job_summary").select("job_id").distinct(), "job_id")
    jobs = {row.job_id: row.run_id for row in with_rows.orderBy("job_id").toLocalIterator()}
    of_days = lake.read(spark, "aggregates.fleet_daily").filter("cause <> 'not_recorded'").select("day", "job_id")
    by_day = of_days.distinct().join(newest, "job_id").groupBy("day").agg(F.max("run_id").alias("run_id"))
    days = {row.day.isoformat(): row.run_id for row in by_day.orderBy("day").toLocalIterator()}
    last = max(jobs.values(), default="")
    return Due(
        {job: run for job, run in jobs.items() if shown.get(job_file(job), "") < run},
        {day: run for day, run in days.items() if shown.get(fleet_file(day), "") < run},
        last if shown.get(INDEX_FILE, "") < last else None,
    )


def _newest_runs(lake: Lake, spark: SparkSession) -> DataFrame:
    """The last run that took in windows of each job; a job that retention has begun to remove has none."""
    files = lake.read(spark, "operations.files").filter("status <> 'expired'")
    return files.groupBy("job_id").agg(F.max("run_id").alias("run_id"))


def note_made(lake: Lake, spark: SparkSession, made: Iterable[tuple[str, str | None, str]]) -> None:
    """Put (page, job, last run shown) into the ledger, after the pages are written: a crash costs only their making."""
    declared, now = table("operations.pages"), time.time_ns()
    rows = [(*each, now) for each in made]
    if not rows:
        return
    with lake.lease():
        frame = local_frame(spark, ddl(declared), rows)
        lake.replace(conform(frame, declared), declared, one_of("page", [row[0] for row in rows]))
