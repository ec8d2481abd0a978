"""Kernel time by class, precision and what the precision rests on."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.parameters import METRIC_VERSION


def precision_stats(kernels: DataFrame) -> DataFrame:
    """One row per class, precision, evidence and use of tensor cores."""
    grouped = kernels.groupBy(
        "job_id", "attempt", "kernel_class", "precision", "precision_source", "is_tensor_core"
    ).agg(F.count("*").alias("kernel_count"), F.sum("duration_ns").alias("duration_sum_ns"))
    return grouped.withColumn("metric_version", F.lit(METRIC_VERSION))
