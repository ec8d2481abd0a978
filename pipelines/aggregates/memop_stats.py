"""Copies and fills by kind: how often, how much, how long."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.stats import durations, nearest_rank
from tracelake.pipelines.parameters import METRIC_VERSION


def memop_stats(memops: DataFrame) -> DataFrame:
    """One row per kind, direction and kind of host memory. A size that is not known is in no sum."""
    sized = F.when(F.col("bytes").isNotNull(), F.col("duration_ns")).otherwise(0)
    grouped = memops.groupBy("job_id", "attempt", "kind", "direction", "memory_kind").agg(
        F.count("*").alias("memop_count"),
        F.count("bytes").alias("sized_count"),
        F.sum("bytes").alias("sum_bytes"),
        nearest_rank("bytes", 0.5).alias("p50_bytes"),
        F.max("bytes").alias("max_bytes"),
        F.sum(sized).alias("sized_duration_sum_ns"),
        *durations(),
    )
    return grouped.withColumn("metric_version", F.lit(METRIC_VERSION))
