"""Training jobs: who ran what, where, with which settings, and how it ended."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import one_per_window

_KNOWN = ("in_progress", "completed", "failed", "stopping", "stopped")
_FACTS = ("project", "user", "family", "framework", "cloud_account", "cloud_region", "cloud_job_id", "format")


def jobs(source: DataFrame) -> DataFrame:
    """One row per job over all its windows; where they differ, the latest attempt's first rank speaks.

    State: failed or stopped if the last window of any process of the latest attempt says so, in_progress while one is,
    completed when all are; unknown where none says (imports).
    """
    windows = one_per_window(source)
    latest = windows.groupBy("job_id").agg(
        F.max("attempt").alias("latest"), F.countDistinct("attempt").alias("attempt_count")
    )
    rows = windows.join(F.broadcast(latest), "job_id").withColumn("is_latest", F.col("attempt") == F.col("latest"))
    start = F.coalesce("window_start_ns", "host_start_ns")
    rows = rows.withColumn("is_last", F.row_number().over(_process(start)) == 1)
    end = F.coalesce("window_end_ns", "host_end_ns")
    return (
        rows.groupBy("job_id")
        .agg(
            _state().alias("state"),
            F.min(start).alias("created_ns"),
            F.when(~_state().isin("in_progress", "stopping"), F.max(end)).alias("ended_ns"),
            F.max_by("exit_code", F.when(F.col("is_latest"), F.abs("exit_code"))).alias("exit_code"),
            F.max("attempt_count").alias("attempt_count"),
            *[_spoken(name) for name in _FACTS],
            F.max(F.when(F.col("is_latest"), F.col("world_size"))).alias("world_size"),
            F.array_join(F.array_sort(F.collect_set("instance_type")), ", ").alias("instance_types"),
            F.array_sort(F.collect_set("instance_id")).alias("instance_ids"),
            F.array_sort(F.collect_set("node_id")).alias("nodes"),
            _spoken("hyperparameters"),
            _spoken("tags"),
        )
        .withColumn("instance_type", F.when(F.col("instance_types") != "", F.col("instance_types")))
        .drop("instance_types")
    )


def _spoken(name: str) -> Column:
    """The value of the latest attempt's lowest rank, for equal ranks of the first source."""
    order = F.struct(-F.col("attempt"), F.coalesce("rank", F.lit(1 << 30)), F.col("source_id"))
    return F.min_by(F.when(F.col(name).isNotNull(), F.col(name)), F.when(F.col(name).isNotNull(), order)).alias(name)


def _state() -> Column:
    seen = F.collect_set(F.when(F.col("is_latest") & F.col("is_last") & F.col("state").isin(*_KNOWN), F.col("state")))
    said = F.lit("unknown")
    for state in ("completed", "in_progress", "stopping", "stopped", "failed"):
        said = F.when(F.array_contains(seen, state), F.lit(state)).otherwise(said)
    return said


def _process(start: Column) -> WindowSpec:
    """The windows of one process, latest first: only the last one tells how it ended."""
    process = F.coalesce(F.col("rank").cast("string"), F.concat_ws(" ", "node_id", "process_id"), F.col("source_id"))
    return Window.partitionBy("job_id", "attempt", process).orderBy(F.desc(start), F.desc("source_id"))
