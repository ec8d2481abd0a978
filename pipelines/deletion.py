"""A job deleted everywhere: raw data, tables, ledger, pages."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

from pyspark.sql import SparkSession

from tracelake.pipelines.lake import Lake, literal, one_of
from tracelake.pipelines.raw_files import Freed, raw_folders, remove_raw
from tracelake.pipelines.upkeep import live_files, vacuum
from tracelake.schemas.catalog import table, tables
from tracelake.schemas.model import Table

_AT_ONCE = 3
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Deleted:
    """What `delete_job` removed; `naming` are pages about other things that still name the job."""

    raw: Freed
    rows: int
    tables: Freed
    pages: tuple[str, ...]
    naming: tuple[str, ...]


def is_known(lake: Lake, spark: SparkSession, job_id: str) -> bool:
    """Whether anything of the job is in the lake: raw data, or a row of the ledger, which goes last."""
    if raw_folders(lake, job_id):
        return True
    return not lake.read(spark, "operations.files").filter(one_of("job_id", [job_id])).isEmpty()


def delete_job(
    lake: Lake,
    spark: SparkSession,
    job_id: str,
    *,
    keep_files: bool = False,
    progress: Progress = lambda name, share: None,
) -> Deleted:
    """Remove a job from raw data, tables and pages, and then the files that its rows were in.

    With `keep_files` those stay for readers that are at work, until `maintain` removes them after seven days. Raw data
    goes first, so that no run brings the job back; the ledger last, so that a deletion cut short can be done again.
    """
    with lake.lease():
        raw = remove_raw(lake, job_id)
        ledger, runs = table("operations.files"), table("operations.runs")
        held = [each for each in tables().values() if "job_id" in each.column_names and lake.exists(each)]
        events = [each for each in held if each != ledger]
        rows = 0
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            removed = pool.map(lambda each: _remove_rows(lake, spark, each, job_id), events)
            for number, (declared, found) in enumerate(zip(events, removed, strict=True), 1):
                rows += found
                progress(declared.name, number / (len(held) + 1))
        if lake.exists(runs):
            _forget_in_runs(lake, spark, job_id)
            held.append(runs)
        if lake.exists(ledger):
            rows += _remove_rows(lake, spark, ledger, job_id)
        freed = Freed() if keep_files else _purge(lake, spark, held)
        return Deleted(raw, rows, freed, *_pages(lake, job_id))


def _purge(lake: Lake, spark: SparkSession, held: Sequence[Table]) -> Freed:
    with _no_retention(spark), ThreadPoolExecutor(_AT_ONCE) as pool:
        freed = pool.map(lambda each: vacuum(lake, spark, each, live_files(lake, spark, each), 0), held)
        return sum(freed, Freed())


def _remove_rows(lake: Lake, spark: SparkSession, declared: Table, job_id: str) -> int:
    where = one_of("job_id", [job_id])
    rows = lake.read(spark, declared.name).filter(where).count()
    if rows:
        lake.delta(spark, declared).delete(where)
    return rows


def _forget_in_runs(lake: Lake, spark: SparkSession, job_id: str) -> None:
    """Runs stay, since they were about other jobs too; this one's name leaves them."""
    name = literal(job_id)
    lake.delta(spark, table("operations.runs")).update(
        f"array_contains(jobs, {name}) OR contains(error, {name})",
        {"jobs": f"array_remove(jobs, {name})", "error": f"replace(error, {name}, '(deleted job)')"},
    )


@contextmanager
def _no_retention(spark: SparkSession) -> Iterator[None]:
    """Delta's safety check protects writers at work; here the lease keeps them away."""
    before = spark.conf.get(_RETENTION_CHECK, "true")
    spark.conf.set(_RETENTION_CHECK, "false")
    try:
        yield
    finally:
        spark.conf.set(_RETENTION_CHECK, before or "true")


def _pages(lake: Lake, job_id: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the job's own pages, removed; pages that name it)."""
    own = re.compile(rf"[a-z]+-{re.escape(quote(job_id, safe=''))}[.@]")
    keys = [page.key for page in lake.storage.files("reports")]
    removed = [key for key in keys if own.match(key.rpartition("/")[2])]
    lake.storage.delete(removed)
    others = [key for key in keys if key.endswith(".html") and key not in removed]
    naming = [key for key in others if html.escape(job_id) in lake.storage.read(key).decode()]
    return tuple(map(lake.storage.url, removed)), tuple(map(lake.storage.url, naming))
