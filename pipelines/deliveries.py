"""What publication reads of the lake and writes back: a few queries for all jobs, of tables with a row per job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.lake import Lake, conform, one_of
from tracelake.pipelines.ledger import frame
from tracelake.schemas.catalog import table

FINDINGS = 5
"""The worst are told; the page has them all."""
_JOB = ("job_id", "state", "project", "user", "family", "cloud_job_id", "tags")
_SUMMARY = (
    "attempt", "status", "started_ns", "ended_ns", "device_time_ns", "exposed_comm_ns", "idle_ns", "gpu_active_ratio",
    "kernel_busy_ratio", "comm_overlap_ratio", "tensor_core_ratio", "mfu_ratio", "step_count", "step_median_ns",
    "slow_step_count", "straggler_count",
)  # fmt: skip
_TABLE = "operations.deliveries"


def standing(lake: Lake, spark: SparkSession, jobs: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Each job that has figures, with those of its latest attempt, the worst findings and the verdict on it."""

    def rows_of(name: str) -> DataFrame:
        rows = lake.read(spark, name)
        return rows if jobs is None else rows.filter(one_of("job_id", jobs))

    summary = (
        rows_of("aggregates.job_summary").groupBy("job_id").agg(F.max_by(F.struct(*_SUMMARY), "attempt").alias("s"))
    )
    found = F.struct("finding_number", "title", "severity", "lost_ns")
    worst = F.array_sort(F.collect_list(F.when(F.col("finding_number") <= FINDINGS, found)))
    findings = (
        rows_of("aggregates.findings")
        .groupBy("job_id", "attempt")
        .agg(worst.alias("findings"), F.count("*").alias("finding_count"))
    )
    verdicts = rows_of("operations.publications").select("job_id", "is_publishable", "reasons", "run_id")
    rows = (
        rows_of("normalized.jobs").select(*_JOB)
        .join(summary.select("job_id", "s.*"), "job_id")
        .join(findings, ["job_id", "attempt"], "left")
        .join(verdicts, "job_id", "left")
    )  # fmt: skip
    read = [row.asDict(recursive=True) for row in rows.orderBy("job_id").collect()]
    # A site may leave findings out: then nobody looked for any.
    none = 0 if lake.exists(table("aggregates.findings")) else None
    return [{**row, "findings": row["findings"] or [], "finding_count": row["finding_count"] or none} for row in read]


def last_tries(
    lake: Lake, spark: SparkSession, jobs: Sequence[str] | None = None
) -> dict[tuple[str, str], dict[str, Any]]:
    """The ledger's rows by job and target."""
    rows = lake.read(spark, _TABLE)
    rows = rows if jobs is None else rows.filter(one_of("job_id", jobs))
    return {(row["job_id"], row["target"]): row.asDict() for row in rows.collect()}


def record(lake: Lake, spark: SparkSession, tries: Sequence[Mapping[str, Any]]) -> None:
    """Put tries in place of those before; of jobs that were deleted meanwhile nothing comes back."""
    if not tries:
        return
    declared = table(_TABLE)
    with lake.lease():
        tried = one_of("job_id", [each["job_id"] for each in tries])
        there = {row[0] for row in lake.read(spark, "normalized.jobs").filter(tried).select("job_id").collect()}
        known = [each for each in tries if each["job_id"] in there]
        for target in sorted({each["target"] for each in known}):
            rows = [each for each in known if each["target"] == target]
            where = f"{one_of('target', [target])} AND {one_of('job_id', [each['job_id'] for each in rows])}"
            lake.replace(conform(frame(spark, rows, declared), declared), declared, where)
