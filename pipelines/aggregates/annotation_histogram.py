"""Durations of host annotations in bins of a width from the 1-2-5 series."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import nice
from tracelake.pipelines.functions.stats import nearest_rank
from tracelake.pipelines.functions.steps import was_written
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters


def annotation_histogram(annotations: DataFrame, parameters: Parameters = DEFAULT) -> DataFrame:
    """One row per name and bin that is not empty.

    The bins span the shortest to the 99th percentile; what is longer stands in one last bin up to the longest.
    """
    key = ["job_id", "attempt", "name"]
    closed = annotations.filter("side = 'host' AND is_closed").filter(was_written())
    bounds = closed.groupBy(*key).agg(
        F.min("duration_ns").alias("least"), nearest_rank("duration_ns", 0.99).alias("most")
    )
    spread = F.col("most") - F.col("least") + 1
    width = nice(F.ceil(spread / parameters.histogram_bin_most_count).cast("bigint"))
    binned = closed.join(F.broadcast(bounds.withColumn("width", width)), key)
    value = F.least("duration_ns", F.col("most") + 1)
    low = F.call_function("div", value, F.col("width")) * F.col("width")
    grouped = (
        binned.withColumn("low_ns", low)
        .groupBy(*key, "low_ns", "width")
        .agg(F.count("*").alias("annotation_count"), F.max("duration_ns").alias("longest"))
    )
    last = F.row_number().over(Window.partitionBy(*key).orderBy(F.desc("low_ns"))) == 1
    high = F.col("low_ns") + F.col("width")
    return (
        grouped.withColumn("high_ns", F.when(last, F.greatest(high, F.col("longest") + 1)).otherwise(high))
        .withColumn("metric_version", F.lit(METRIC_VERSION))
        .drop("width", "longest")
    )
