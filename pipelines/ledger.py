"""Rows of the operations tables: what was taken in, what was set aside, what each run did."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines import checks
from tracelake.pipelines.functions.local import local_frame
from tracelake.pipelines.intake import Intake, Window
from tracelake.pipelines.lake import Lake, one_of
from tracelake.schemas.manifest import Manifest
from tracelake.schemas.model import Table

_MOST_EXCERPT = 400
SEGMENT_REMEDIES = {
    "segment_missing": "the manifest lists a segment that is not there; import or upload the window again",
    "segment_unreadable": "the segment has no readable footer; import or upload the window again",
    "segment_row_count": "the segment holds another number of rows than its manifest says; import the window again",
    "segment_schema": "the segment's columns have other types than raw v1; update what wrote it",
}


def quarantine_rows(intake: Intake, run_id: str) -> DataFrame:
    """Everything that the intake sets aside: losses on reading, rows that cannot be, segments that are broken."""
    parts = [_losses(intake), *(_failing(intake, kind) for kind in intake.kinds), _broken(intake)]
    return reduce(DataFrame.unionByName, parts).withColumn("run_id", F.lit(run_id))


def _days(intake: Intake) -> DataFrame:
    rows = [(w.manifest.job_id, w.manifest.source_id, w.manifest.day, w.manifest.file or w.path) for w in intake.batch]
    schema = "job_id string, source_id string, day string, file string"
    return local_frame(intake.spark, schema, rows).withColumn("day", F.col("day").cast("date"))


def _losses(intake: Intake) -> DataFrame:
    days = _days(intake).drop("file")
    return intake.all_rows("loss").join(F.broadcast(days), ["job_id", "source_id"]).withColumn("kind", F.lit("loss"))


def _failing(intake: Intake, kind: str) -> DataFrame:
    rows = intake.failing(kind).join(F.broadcast(_days(intake)), ["job_id", "source_id"])
    index = "event_id" if "event_id" in rows.columns else "monotonic_ns"
    shown = [name for name in ("name", "text", "api_name", "metric", "start_ns", "duration_ns") if name in rows.columns]
    return rows.select(
        "day", "job_id", "source_id", F.lit(kind).alias("kind"), "file", _null("offset_bytes"), _null("length_bytes"),
        F.col(index).alias("row_index"), F.lit(1).cast("bigint").alias("rows_count"),
        F.col("failed_check").alias("reason"),
        checks.remedy(F.col("failed_check")).alias("remedy"),
        F.substring(F.to_json(F.struct(*shown)), 1, _MOST_EXCERPT).alias("excerpt"),
    )  # fmt: skip


def _null(name: str) -> Any:
    return F.lit(None).cast("bigint").alias(name)


def _broken(intake: Intake) -> DataFrame:
    rows = [
        (
            each.window.manifest.day, each.window.manifest.job_id, each.window.manifest.source_id, each.segment.kind,
            each.segment.path, each.segment.rows, each.reason, SEGMENT_REMEDIES[each.reason],
        )
        for each in intake.broken
    ]  # fmt: skip
    schema = (
        "day string, job_id string, source_id string, kind string, file string, rows_count bigint, reason string,"
        " remedy string"
    )
    frame = local_frame(intake.spark, schema, rows).withColumn("day", F.col("day").cast("date"))
    empty = [_null(name) for name in ("offset_bytes", "length_bytes", "row_index")]
    return frame.select("*", *empty, F.lit("").alias("excerpt"))


def failed_rows(rows: DataFrame, declared: Table, run_id: str, without: Collection[str] = ()) -> DataFrame:
    """Rows of a written table that broke a row check, as quarantine rows; `without` those checks that raised."""
    failing = checks.split(rows, declared, without)[1]
    columns = set(declared.column_names)
    index = next((F.col(name) for name in ("event_id", "launch_id", "annotation_id") if name in columns), F.lit(None))
    return failing.select(
        F.col("day") if "day" in columns else F.current_date().alias("day"),
        "job_id",
        F.coalesce(F.col("source_id") if "source_id" in columns else F.lit(None), F.lit("")).alias("source_id"),
        F.lit(declared.name).alias("kind"), F.lit(declared.name).alias("file"), _null("offset_bytes"),
        _null("length_bytes"), index.cast("bigint").alias("row_index"), F.lit(1).cast("bigint").alias("rows_count"),
        F.col("failed_check").alias("reason"), checks.remedy(F.col("failed_check")).alias("remedy"),
        F.substring(F.to_json(F.struct(*sorted(columns))), 1, _MOST_EXCERPT).alias("excerpt"),
        F.lit(run_id).alias("run_id"),
    )  # fmt: skip


def file_rows(lake: Lake, spark: SparkSession, batch: Sequence[Window], run_id: str) -> list[dict[str, Any]]:
    """One row of operations.files per window, its counts those of normalized.sources."""
    jobs = sorted({window.manifest.job_id for window in batch})
    counts = ("rows_read", "rows_stored", "rows_quarantined", "rows_deduplicated", "rows_skipped")
    ids = one_of("source_id", [window.manifest.source_id for window in batch])
    sources = lake.read(spark, "normalized.sources").filter(f"{one_of('job_id', jobs)} AND {ids}")
    known = {(row["job_id"], row["source_id"]): row for row in sources.select("job_id", "source_id", *counts).collect()}
    rows = []
    for window in batch:
        manifest = window.manifest
        row = known.get((manifest.job_id, manifest.source_id))
        rows.append(
            {
                "day": manifest.day,
                "job_id": manifest.job_id,
                "source_id": manifest.source_id,
                "manifest": window.path,
                "manifest_sha256": window.sha256,
                "file": manifest.file,
                "segment_bytes": window.bytes,
                "status": "stored" if row else "quarantined",
                **({name: row[name] for name in counts} if row else _all_aside(manifest)),
                "run_id": run_id,
                "taken_ns": time.time_ns(),
            }
        )
    return rows


def _all_aside(manifest: Manifest) -> dict[str, int]:
    """Counts of a window whose source row cannot be read: nothing of it is stored, and nothing is forgotten."""
    read, skipped, copies = (manifest.rows.get(name, 0) for name in ("read", "skipped", "deduplicated"))
    return {
        "rows_read": read,
        "rows_stored": 0,
        "rows_quarantined": read - skipped - copies,
        "rows_deduplicated": copies,
        "rows_skipped": skipped,
    }


def run_row(
    *,
    run_id: str,
    command: str,
    error: Exception | None,
    incomplete: str | None,
    started_ns: int,
    jobs: Sequence[str],
    sources: int,
    rows: Mapping[str, int],
    seconds: Mapping[str, float],
    outcomes: Mapping[str, int],
    versions: Mapping[str, str],
) -> dict[str, Any]:
    """One row of operations.runs, however the run ended."""
    return {
        "run_id": run_id,
        "command": command,
        "status": "failed" if error else "incomplete" if incomplete else "succeeded",
        "error": f"{type(error).__name__}: {error}"[:2000] if error else incomplete,
        "started_ns": started_ns,
        "ended_ns": time.time_ns(),
        "jobs": list(jobs),
        "source_count": sources,
        **{
            f"rows_{name}_count": rows.get(name, 0)
            for name in ("read", "stored", "quarantined", "deduplicated", "skipped")
        },
        "seconds": {name: f"{value:.3f}" for name, value in seconds.items()},
        "checks": {name: str(count) for name, count in outcomes.items()},
        "versions": dict(versions),
    }


def frame(spark: SparkSession, rows: Sequence[Mapping[str, Any]], declared: Table) -> DataFrame:
    """Plain rows as a frame with the declared columns; dates may be text."""
    fields = ", ".join(f"`{c.name}` {'string' if c.type.value == 'date' else c.type.value}" for c in declared.columns)
    return local_frame(spark, fields, [tuple(row[c.name] for c in declared.columns) for row in rows])
