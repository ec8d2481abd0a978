"""What a run takes in: the windows that the ledger lacks, their segments checked, their rows checked at the door."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines import checks
from tracelake.pipelines.functions.where import one_per_window
from tracelake.pipelines.lake import Lake, one_of
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import EVENT_KINDS, READ_AT_ONCE, Manifest, Segment, read_manifests
from tracelake.schemas.render.arrow import arrow_schema
from tracelake.schemas.storage import Storage


@dataclass(frozen=True)
class Broken:
    """A segment that cannot be used, and why."""

    window: Window
    segment: Segment
    reason: str


@dataclass(frozen=True)
class Window:
    """One manifest, and its identity: a changed one is taken in again."""

    manifest: Manifest
    path: str
    sha256: str

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.manifest.segments)


def windows(lake: Lake, job_id: str | None = None) -> list[Window]:
    """Every window of the lake or of a job, those that a later file supersedes left out. Raises BadManifest."""
    found = [
        Window(manifest, key, hashlib.sha256(text).hexdigest())
        for key, text, manifest in read_manifests(lake.raw, job_id)
    ]
    gone = {(w.manifest.job_id, source) for w in found for source in w.manifest.supersedes}
    return [w for w in found if (w.manifest.job_id, w.manifest.source_id) not in gone]


class Pending(NamedTuple):
    """New windows: those to take in, oldest day first, and those of jobs that retention has removed in part."""

    windows: list[Window]
    refused: list[Window]


def pending(
    lake: Lake, spark: SparkSession, *, job_id: str | None = None, day: str | None = None, again: bool = False
) -> Pending:
    """Windows that the `files` ledger lacks or knows by another manifest, of one job or day where given; all, `again`.

    A job that retention has removed in part takes no more: its aggregates would shrink to what is left of it.
    """
    ledger = lake.read(spark, "operations.files")
    if job_id:
        ledger = ledger.filter(one_of("job_id", [job_id]))
    known, expired = set(), set()
    for job, source, sha256, status in ledger.select(
        "job_id", "source_id", "manifest_sha256", "status"
    ).toLocalIterator():
        known.add((job, source, sha256))
        if status == "expired":
            expired.add(job)
    found = Pending([], [])
    for window in windows(lake, job_id):
        manifest = window.manifest
        if not again and (manifest.job_id, manifest.source_id, window.sha256) in known:
            continue
        if manifest.job_id in expired:
            found.refused.append(window)
        elif day in (None, manifest.day):
            found.windows.append(window)
    found.windows.sort(key=lambda w: (w.manifest.day, w.manifest.job_id, w.manifest.source_id))
    return found


class Intake:
    """The raw rows of one batch: segments that are whole, rows that can be."""

    def __init__(self, lake: Lake, spark: SparkSession, batch: list[Window]) -> None:
        self.lake, self.spark, self.batch = lake, spark, batch

    @cached_property
    def _checked(self) -> tuple[dict[str, list[str]], list[Broken]]:
        """Keys of segments by kind, and the segments whose footer, schema or row count is wrong."""
        paths: dict[str, list[str]] = {}
        broken = []
        listed = [(window, segment) for window in self.batch for segment in window.manifest.segments]
        with ThreadPoolExecutor(READ_AT_ONCE) as pool:
            reasons = pool.map(lambda each: _why_broken(self.lake.raw, each[1]), listed)
            for (window, segment), reason in zip(listed, reasons, strict=True):
                if reason:
                    broken.append(Broken(window, segment, reason))
                else:
                    paths.setdefault(segment.kind, []).append(segment.path)
        return paths, broken

    @property
    def broken(self) -> list[Broken]:
        return self._checked[1]

    def all_rows(self, kind: str) -> DataFrame:
        """Rows of a kind as they lie in raw."""
        keys = self._checked[0].get(kind, [])
        return self.lake.read_raw(self.spark, kind, [self.lake.raw.spark_url(key) for key in keys])

    def raw(self, kind: str) -> DataFrame:
        """Rows of a kind that hold: an impossible time would poison every table after this one."""
        if kind == "source":
            return self._sources
        return checks.split(self.all_rows(kind), table(f"raw.{kind}"))[0]

    @cached_property
    def _sources(self) -> DataFrame:
        """raw.source, one row per window, as a constant: each table asks for it several times, of hundreds of files."""
        return self.spark.createDataFrame(one_per_window(self.all_rows("source")).toArrow())

    def failing(self, kind: str) -> DataFrame:
        """Rows of a kind that do not hold, with `reason`."""
        return checks.split(self.all_rows(kind), table(f"raw.{kind}"))[1]

    @property
    def kinds(self) -> list[str]:
        return [kind for kind in self._checked[0] if kind in EVENT_KINDS]

    def raw_of_jobs(self, kind: str) -> DataFrame:
        """Rows of a small kind (source) of all windows of the batch's jobs, taken in now or before."""
        jobs = sorted({window.manifest.job_id for window in self.batch})
        keys = [
            segment.path
            for job in jobs
            for window in windows(self.lake, job)
            for segment in window.manifest.segments
            if segment.kind == kind
        ]
        with ThreadPoolExecutor(READ_AT_ONCE) as pool:
            sizes = pool.map(self.lake.raw.size, keys)
            paths = [self.lake.raw.spark_url(key) for key, size in zip(keys, sizes, strict=True) if size is not None]
        return self.lake.read_raw(self.spark, kind, paths).filter(F.col("job_id").isin(jobs))


def _why_broken(raw: Storage, segment: Segment) -> str | None:
    if raw.size(segment.path) is None:
        return "segment_missing"
    try:
        with raw.open(segment.path) as opened, pq.ParquetFile(opened) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
    except (pa.ArrowException, OSError):
        return "segment_unreadable"
    if rows != segment.rows:
        return "segment_row_count"
    declared = arrow_schema(table(f"raw.{segment.kind}"))
    for name in schema.names:
        if name in declared.names and schema.field(name).type != declared.field(name).type:
            return "segment_schema"
    return None
