"""Annotations by name: how often, how long, and the device time that they launched."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.stats import durations
from tracelake.pipelines.functions.steps import was_written
from tracelake.pipelines.parameters import METRIC_VERSION


def annotation_stats(annotations: DataFrame) -> DataFrame:
    """One row per side and name that the program gave. A range that was never closed is counted and in no duration."""
    grouped = (
        annotations.filter(was_written())
        .groupBy("job_id", "attempt", "side", "name")
        .agg(
            F.max("is_step").alias("is_step"),
            F.count("*").alias("annotation_count"),
            F.sum((~F.col("is_closed")).cast("bigint")).alias("open_count"),
            F.sum("gpu_exclusive_ns").alias("gpu_exclusive_ns"),
            F.sum("gpu_time_ns").alias("gpu_time_ns"),
            *durations(),
        )
    )
    return grouped.withColumn("metric_version", F.lit(METRIC_VERSION))
