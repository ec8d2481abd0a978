"""Host calls by function: how often, how long, how far ahead of the device."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.stats import durations, nearest_rank
from tracelake.pipelines.functions.where import SOURCE_KEY
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters


def launch_stats(launches: DataFrame, kernels: DataFrame, parameters: Parameters = DEFAULT) -> DataFrame:
    """One row per function. A short kernel runs shorter than the call that launched it; a long delay is one over the
    limit although its stream was free before.
    """
    facts = _kernel_facts(launches, kernels, parameters)
    joined = launches.join(facts, [*SOURCE_KEY, "launch_id"], "left")
    delays = F.col("launch_delay_ns")
    grouped = joined.groupBy("job_id", "attempt", "api_name").agg(
        F.count("*").alias("launch_count"),
        F.sum("kernel_count").alias("kernel_count"),
        F.sum(F.col("is_kernel_producing").cast("bigint")).alias("producing_launch_count"),
        F.sum((F.col("is_kernel_producing") & (F.col("kernel_count") > 0)).cast("bigint")).alias(
            "covered_launch_count"
        ),
        F.coalesce(F.sum("short_kernels"), F.lit(0)).alias("short_kernel_count"),
        F.sum((F.col("duration_ns") > parameters.slow_launch_ns).cast("bigint")).alias("slow_launch_count"),
        F.coalesce(F.sum("long_delays"), F.lit(0)).alias("long_delay_count"),
        F.count(delays).alias("launch_delay_count"),
        F.avg(delays).alias("launch_delay_mean_ns"),
        nearest_rank("launch_delay_ns", 0.5).alias("launch_delay_p50_ns"),
        nearest_rank("launch_delay_ns", 0.99).alias("launch_delay_p99_ns"),
        F.max(delays).alias("launch_delay_max_ns"),
        F.sum(F.array_contains("flags", "before_launch").cast("bigint")).alias("before_launch_count"),
        *durations(),
    )
    return grouped.withColumn("metric_version", F.lit(METRIC_VERSION))


def _kernel_facts(launches: DataFrame, kernels: DataFrame, parameters: Parameters) -> DataFrame:
    stream = Window.partitionBy(*SOURCE_KEY, "device_id", "stream_id").orderBy("start_ns", "effective_end_ns")
    previous_end = F.max("effective_end_ns").over(stream.rowsBetween(Window.unboundedPreceding, -1))
    calls = launches.select(
        *SOURCE_KEY, "launch_id", F.col("duration_ns").alias("call_ns"), F.col("start_ns").alias("call_start_ns")
    )
    linked = kernels.withColumn("previous_end_ns", previous_end).join(calls, [*SOURCE_KEY, "launch_id"])
    # The stream explains a delay while it was busy: what remains is the wait with the stream free.
    free_since = F.greatest("call_start_ns", F.coalesce("previous_end_ns", F.col("call_start_ns")))
    is_long = F.col("launch_delay_ns").isNotNull() & (F.col("start_ns") - free_since > parameters.long_delay_ns)
    return linked.groupBy(*SOURCE_KEY, "launch_id").agg(
        F.sum((F.col("duration_ns") < F.col("call_ns")).cast("bigint")).alias("short_kernels"),
        F.sum(is_long.cast("bigint")).alias("long_delays"),
    )
