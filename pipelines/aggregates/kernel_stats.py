"""Kernels by name: how often, how long."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.stats import durations
from tracelake.pipelines.parameters import METRIC_VERSION

_FACTS = ("name", "short_name", "kernel_class", "is_tensor_core")


def kernel_stats(kernels: DataFrame) -> DataFrame:
    """One row per name, precision and evidence. Grouped by a hash of the name: names of 10 KB make slow keys."""
    keyed = kernels.withColumn("name_id", F.xxhash64("name"))
    grouped = keyed.groupBy("job_id", "attempt", "name_id", "precision", "precision_source").agg(
        *[F.first(name).alias(name) for name in _FACTS],
        F.count("*").alias("kernel_count"),
        F.countDistinct("device_id").alias("device_count"),
        *durations(),
    )
    return grouped.drop("name_id").withColumn("metric_version", F.lit(METRIC_VERSION))
