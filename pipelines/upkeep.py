"""Upkeep of a lake: small files made into few, old files and layers removed."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.intake import windows
from tracelake.pipelines.lake import Lake, one_of
from tracelake.pipelines.raw_files import Freed, remove_raw
from tracelake.pipelines.session import COLUMN_BOUNDS
from tracelake.schemas.catalog import table, tables
from tracelake.schemas.model import Table

FILE_BYTES = 128 << 20
"""Size that a table's files should have: large enough to read at full speed, small enough for a task."""
CROWDED = 4
"""A partition with this many times the files that its bytes need is written anew."""
_AT_ONCE = 3

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Retention:
    """Days that each layer of a job stays after its last window; None is for ever."""

    raw_days: int | None = None
    normalized_days: int | None = None
    aggregates_days: int | None = None

    @staticmethod
    def from_mapping(given: Mapping[str, Any]) -> Retention:
        """From [retention] of the settings. Raises ValueError naming the key."""
        names = [field.name for field in fields(Retention)]
        for name, days in given.items():
            if name not in names:
                raise ValueError(f"no setting {name}; there are {', '.join(names)}")
            if not isinstance(days, int) or isinstance(days, bool) or days < 1:
                raise ValueError(f"{name} = {days!r}; give a number of days, from 1")
        return Retention(**given)

    def days(self, layer: str) -> int | None:
        days: int | None = getattr(self, f"{layer}_days")
        return days


@dataclass(frozen=True)
class Laid:
    """One table: its files before and after, and what left the disk."""

    table: str
    files_before: int
    files_after: int
    removed_files: int
    removed_bytes: int


@dataclass(frozen=True)
class Maintained:
    """What `maintain` did."""

    tables: tuple[Laid, ...]
    expired_jobs: tuple[str, ...]
    expired_rows: int
    raw: Freed

    @property
    def files_before(self) -> int:
        return sum(each.files_before for each in self.tables)

    @property
    def files_after(self) -> int:
        return sum(each.files_after for each in self.tables)

    @property
    def removed(self) -> Freed:
        return Freed(sum(t.removed_files for t in self.tables), sum(t.removed_bytes for t in self.tables))


def maintain(
    lake: Lake,
    spark: SparkSession,
    retention: Retention | None = None,
    *,
    today: dt.date | None = None,
    progress: Progress = lambda name, share: None,
) -> Maintained:
    """Remove what retention no longer keeps, then write crowded partitions anew and VACUUM every table.

    VACUUM keeps Delta's own seven days: whoever reads an older version meanwhile finishes with it.
    """
    written = [each for each in tables().values() if each.layer != "raw" and lake.exists(each)]
    with lake.lease(), _column_bounds(spark):
        jobs, rows, raw = _expire(lake, spark, retention or Retention(), today or dt.datetime.now(dt.UTC).date())
        done: list[Laid] = []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for laid in pool.map(lambda each: _lay(lake, spark, each), written):
                done.append(laid)
                progress(laid.table, len(done) / len(written))
    return Maintained(tuple(done), jobs, rows, raw)


@contextmanager
def _column_bounds(spark: SparkSession) -> Iterator[None]:
    """Files written meanwhile hold their columns' bounds: of a large one, readers pass over what they do not ask."""
    spark.conf.set(COLUMN_BOUNDS, "true")
    try:
        yield
    finally:
        spark.conf.unset(COLUMN_BOUNDS)


def _lay(lake: Lake, spark: SparkSession, declared: Table) -> Laid:
    before = live_files(lake, spark, declared)
    compact(lake, spark, declared, before)
    after = live_files(lake, spark, declared)
    removed = vacuum(lake, spark, declared, after)
    return Laid(declared.name, len(before), len(after), removed.files, removed.bytes)


def live_files(lake: Lake, spark: SparkSession, declared: Table) -> list[str]:
    """The data files of a table's current version, as keys below the lake."""
    frame = spark.read.format("delta").load(lake.path(declared))
    return [lake.key(url) for url in frame.inputFiles()]


def compact(lake: Lake, spark: SparkSession, declared: Table, files: Iterable[str]) -> None:
    """Write partitions of many small files anew: the same rows, sorted, in as many files as their bytes need.

    Delta's OPTIMIZE lays files end to end and leaves them unsorted, and a reader of one job would read them all.
    """
    bytes_of, partitions = data_files(lake, declared), dict[str, list[int]]()
    for file in files:
        partitions.setdefault(_partition(file, declared), []).append(bytes_of[file])
    for where, sizes in partitions.items():
        needed = math.ceil(sum(sizes) / FILE_BYTES)
        if len(sizes) >= CROWDED * needed:
            rows = lake.read(spark, declared.name).filter(where)
            lake.replace(_spread(rows, declared, needed), declared, where, same_rows=True)


def _partition(file: str, declared: Table) -> str:
    """The predicate of the partition that a file lies in."""
    values = [part.partition("=") for part in file.split("/") if part.partition("=")[0] in declared.partition_by]
    return " AND ".join(f"{name} = DATE '{value}'" for name, _, value in values) or "true"


def _spread(rows: DataFrame, declared: Table, count: int) -> DataFrame:
    if count > 1 and declared.cluster_by:
        return rows.repartitionByRange(count, *declared.cluster_by)
    return rows.repartition(count)


def vacuum(lake: Lake, spark: SparkSession, declared: Table, live: Iterable[str], hours: float | None = None) -> Freed:
    """Delta's VACUUM with its own retention, or with `hours`; skipped where no file is out of use."""
    before = data_files(lake, declared)
    if before.keys() == set(live):
        return Freed()
    lake.delta(spark, declared).vacuum(hours)
    gone = before.keys() - data_files(lake, declared).keys()
    return Freed(len(gone), sum(before[key] for key in gone))


def data_files(lake: Lake, declared: Table) -> dict[str, int]:
    """The data files below a table's folder, in use or not: bytes by key."""
    found = lake.storage.files(lake.folder(declared))
    return {file.key: file.bytes for file in found if file.key.endswith(".parquet") and "/_delta_log/" not in file.key}


def _expire(
    lake: Lake, spark: SparkSession, retention: Retention, today: dt.date
) -> tuple[tuple[str, ...], int, Freed]:
    """(jobs, table rows, raw files) that left. A job leaves a layer as a whole: its aggregates are of all its windows.

    The ledger is marked before anything goes, so that a job of which a part is gone is never aggregated again.
    """
    raw = _expired_raw(lake, spark, retention.raw_days, today)
    stale = {
        declared.name: found
        for declared in tables().values()
        if declared.layer in ("normalized", "aggregates") and (found := _stale(lake, spark, declared, retention, today))
    }
    jobs = sorted({*raw, *(job for found in stale.values() for job in found)})
    if jobs:
        ledger = lake.delta(spark, table("operations.files"))
        ledger.update(f"{one_of('job_id', jobs)} AND status <> 'expired'", {"status": "'expired'"})
    freed = sum((remove_raw(lake, job) for job in raw), Freed())
    for name, found in stale.items():
        lake.delta(spark, table(name)).delete(one_of("job_id", list(found)))
    return tuple(jobs), sum(sum(found.values()) for found in stale.values()), freed


def _old_jobs(lake: Lake, spark: SparkSession, before: dt.date) -> DataFrame:
    """Jobs whose last window was recorded, and taken in, before a day: an old trace imported today is not old."""
    taken = F.to_date(F.timestamp_micros((F.col("taken_ns") / 1000).cast("bigint")))
    last = F.max(F.greatest("day", taken))
    return lake.read(spark, "operations.files").groupBy("job_id").agg(last.alias("last")).filter(F.col("last") < before)


def _expired_raw(lake: Lake, spark: SparkSession, days: int | None, today: dt.date) -> list[str]:
    """Jobs whose raw data goes: all of it is in the tables."""
    if days is None or not lake.exists(table("operations.files")):
        return []
    old = _old_jobs(lake, spark, today - dt.timedelta(days)).select("job_id")
    ledger = lake.read(spark, "operations.files").join(F.broadcast(old), "job_id")
    known = {tuple(row) for row in ledger.select("job_id", "source_id", "manifest_sha256").toLocalIterator()}
    held: dict[str, bool] = {}
    for window in windows(lake) if known else []:
        key = (window.manifest.job_id, window.manifest.source_id, window.sha256)
        held[key[0]] = held.get(key[0], True) and key in known
    return [job for job, is_taken_in in held.items() if is_taken_in]


def _stale(lake: Lake, spark: SparkSession, declared: Table, retention: Retention, today: dt.date) -> dict[str, int]:
    """Rows by job that retention no longer keeps in a table.

    Of the normalized tables only those of events go: what is known about jobs, windows and devices is a few rows,
    and pages about the aggregates need them as long as those stay.
    """
    layer = "normalized" if declared.layer == "normalized" and declared.cluster_by else "aggregates"
    days = retention.days(layer)
    if days is None or "job_id" not in declared.column_names or not lake.exists(declared):
        return {}
    before = today - dt.timedelta(days)
    rows = lake.read(spark, declared.name)
    if "day" in declared.partition_by:
        rows = rows.filter(F.col("day") < before)  # no window of an old job is younger: whole partitions stay unread
    counts = rows.join(F.broadcast(_old_jobs(lake, spark, before)), "job_id").groupBy("job_id").count()
    return {row["job_id"]: row["count"] for row in counts.toLocalIterator()}
