"""What was set aside, each with its place and remedy; the bytes themselves where they still exist; the way back in."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tracelake.pipelines.intake import windows
from tracelake.pipelines.lake import Lake, one_of
from tracelake.schemas.bucket import SCHEME, Bucket, S3Options, storage_at
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import EVENT_KINDS, manifests
from tracelake.schemas.storage import Storage, StorageFailed

_MOST_BYTES = 2000
_ORDER = ("run_id", "job_id", "source_id", "kind", "file", "offset_bytes", "row_index", "reason")


def entries(lake: Lake, spark: SparkSession, *, job_id: str | None = None, reason: str | None = None) -> DataFrame:
    """Quarantine with `number`, from 1: its place among all, oldest run first, so that filters do not change it."""
    rows = lake.read(spark, "operations.quarantine")
    numbered = rows.withColumn("number", F.row_number().over(Window.orderBy(*_ORDER)))
    for column, value in (("job_id", job_id), ("reason", reason)):
        if value is not None:
            numbered = numbered.filter(F.col(column) == value)
    return numbered.orderBy("number")


def original(lake: Lake, entry: Mapping[str, Any]) -> str:
    """The bytes of the input, or the raw row, that an entry is about; else why they cannot be shown."""
    if entry["kind"] in EVENT_KINDS and entry["row_index"] is not None:
        return _raw_row(lake, entry)
    if entry["offset_bytes"] is None:
        return "the entry names no stretch of bytes"
    try:
        with _opened(lake, entry["file"]) as file:
            return _stretch(file, entry["offset_bytes"], entry["length_bytes"])
    except StorageFailed as error:
        return str(error)
    except (OSError, EOFError) as error:
        return f"{entry['file']}: cannot be read ({getattr(error, 'strerror', None) or error})"


def _opened(lake: Lake, name: str) -> IO[bytes]:
    """An input, here or in a bucket that is reached as the lake's is."""
    if not name.startswith(SCHEME):
        return Path(name).open("rb")
    options = lake.storage.connection.options if isinstance(lake.storage, Bucket) else S3Options()
    bucket, _, key = name.removeprefix(SCHEME).partition("/")
    return storage_at(f"{SCHEME}{bucket}", options).open(key)


def _stretch(file: IO[bytes], offset: int, length: int | None) -> str:
    """Bytes of the uncompressed input, escaped."""
    is_packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    with gzip.open(file) if is_packed else file as whole:
        whole.seek(offset)
        found = whole.read(min(length or _MOST_BYTES, _MOST_BYTES))
    return found.decode("utf-8", "backslashreplace")


def _raw_row(lake: Lake, entry: Mapping[str, Any]) -> str:
    """The row as raw data holds it."""
    index = "monotonic_ns" if entry["kind"] == "sample" else "event_id"
    for _, manifest in manifests(lake.raw, entry["job_id"]):
        for segment in manifest.segments if manifest.source_id == entry["source_id"] else ():
            if segment.kind == entry["kind"] and lake.raw.size(segment.path) is not None:
                rows = _rows_at(lake.raw, segment.path, index, entry["row_index"])
                if rows:
                    return f"{segment.path}: {rows[0]}"
    return "the raw data no longer holds the row"


def _rows_at(raw: Storage, key: str, index: str, value: int) -> list[dict[str, Any]]:
    try:
        with raw.open(key) as opened, pq.ParquetFile(opened) as file:
            for batch in file.iter_batches():
                if found := batch.filter(pc.equal(batch[index], value)).to_pylist():
                    return [{k: v for k, v in row.items() if v is not None} for row in found]
    except (pa.ArrowException, OSError, KeyError):
        return []
    return []


@dataclass(frozen=True)
class Retried:
    """Windows that the next run takes in again, and those whose raw data is gone."""

    windows: int
    gone: int


def retry(lake: Lake, spark: SparkSession, job_id: str | None = None) -> Retried:
    """Forget, in the ledger, the windows that have something in quarantine: the next run takes them in again."""
    rows = lake.read(spark, "operations.quarantine").filter("source_id <> ''")
    if job_id is not None:
        rows = rows.filter(one_of("job_id", [job_id]))
    with lake.lease():
        ledger = lake.read(spark, "operations.files").filter("status <> 'expired'")
        aside = {tuple(row) for row in rows.select("job_id", "source_id").distinct().toLocalIterator()}
        known = {tuple(row) for row in ledger.select("job_id", "source_id").toLocalIterator()}
        there = {(window.manifest.job_id, window.manifest.source_id) for window in windows(lake, job_id)}
        again = sorted(aside & known & there)
        for job in sorted({job for job, _ in again}):
            sources = one_of("source_id", [source for of, source in again if of == job])
            forget = lake.delta(spark, table("operations.files"))
            forget.delete(f"{one_of('job_id', [job])} AND {sources}")
    return Retried(len(again), len(aside - there))
