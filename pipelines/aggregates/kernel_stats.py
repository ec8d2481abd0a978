"""Kernels by name: how often, how long."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.stats import duration_columns, spread
from tracelake.pipelines.parameters import METRIC_VERSION

_FACTS = ("job_id", "attempt", "name", "short_name", "kernel_class", "is_tensor_core")


def kernel_stats(kernels: DataFrame) -> DataFrame:
    """One row per name, with the precision of most of its time: precision_stats has the exact split.

    Grouped by a hash of the name: names of 10 KB make slow keys.
    """
    keyed = kernels.withColumn("name_id", F.xxhash64("job_id", "attempt", "name"))
    split = keyed.groupBy("name_id", *_FACTS, "precision", "precision_source", "device_id").agg(
        F.sum("duration_ns").alias("device_spent")
    )
    precisions = split.groupBy("name_id", "precision", "precision_source").agg(
        *[F.first(name).alias(name) for name in _FACTS],
        F.sum("device_spent").alias("spent"),
        F.collect_set("device_id").alias("devices"),
    )
    most = F.max_by(F.struct("precision", "precision_source"), F.struct("spent", "precision", "precision_source"))
    facts = precisions.groupBy("name_id").agg(
        *[F.first(name).alias(name) for name in _FACTS],
        most.alias("most"),
        F.size(F.collect_set("precision")).alias("precision_count"),
        F.size(F.array_distinct(F.flatten(F.collect_list("devices")))).alias("device_count"),
    )
    times = spread(keyed, ["name_id"], "duration_ns", "duration")
    return (
        times.join(facts, "name_id")
        .select(
            *_FACTS,
            "most.*",
            "precision_count",
            "device_count",
            F.col("duration_count").alias("kernel_count"),
            *duration_columns(),
        )
        .withColumn("metric_version", F.lit(METRIC_VERSION))
    )
