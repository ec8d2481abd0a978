"""Kernels by name: how often, how long."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.stats import durations
from tracelake.pipelines.parameters import METRIC_VERSION

_FACTS = ("name", "short_name", "kernel_class", "is_tensor_core")


def kernel_stats(kernels: DataFrame) -> DataFrame:
    """One row per name, with the precision of most of its time: precision_stats has the exact split.

    Grouped by a hash of the name: names of 10 KB make slow keys.
    """
    name = ["job_id", "attempt", "name_id"]
    keyed = kernels.withColumn("name_id", F.xxhash64("name"))
    split = keyed.groupBy(*name, "precision", "precision_source").agg(F.sum("duration_ns").alias("spent"))
    most = F.max_by(F.struct("precision", "precision_source"), F.struct("spent", "precision", "precision_source"))
    chosen = split.groupBy(*name).agg(most.alias("most"), F.countDistinct("precision").alias("precision_count"))
    grouped = keyed.groupBy(*name).agg(
        *[F.first(name).alias(name) for name in _FACTS],
        F.count("*").alias("kernel_count"),
        F.countDistinct("device_id").alias("device_count"),
        *durations(),
    )
    return (
        grouped.join(chosen, name)
        .select("*", "most.*")
        .drop("name_id", "most")
        .withColumn("metric_version", F.lit(METRIC_VERSION))
    )
