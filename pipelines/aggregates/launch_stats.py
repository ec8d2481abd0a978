"""Host calls by function: how often, how long, how far ahead of the device."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.stats import duration_columns, spread
from tracelake.pipelines.functions.streams import free_before
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_FUNCTION = ["job_id", "attempt", "api_name"]


def launch_stats(launches: DataFrame, kernels: DataFrame, parameters: Parameters = DEFAULT) -> DataFrame:
    """One row per function. A short kernel runs shorter than the call that launched it; a long delay is one over the
    limit although its stream was free before.
    """
    # A function of a job as a number: as a key of many calls, its text costs most of the time.
    keyed = launches.withColumn("api", F.xxhash64(*_FUNCTION))
    counts = keyed.groupBy("api", *_FUNCTION).agg(
        F.count("*").alias("launch_count"),
        F.sum("kernel_count").alias("kernel_count"),
        F.sum(F.col("is_kernel_producing").cast("bigint")).alias("producing_launch_count"),
        F.sum((F.col("is_kernel_producing") & (F.col("kernel_count") > 0)).cast("bigint")).alias(
            "covered_launch_count"
        ),
        F.sum((F.col("duration_ns") > parameters.slow_launch_ns).cast("bigint")).alias("slow_launch_count"),
        F.sum(F.array_contains("flags", "before_launch").cast("bigint")).alias("before_launch_count"),
    )
    joined = (
        counts.join(_kernel_facts(keyed, kernels, parameters), "api", "left")
        .join(spread(keyed, ["api"], "duration_ns", "duration"), "api")
        .join(spread(keyed, ["api"], "launch_delay_ns", "launch_delay"), "api", "left")
    )
    delays = [F.col(f"launch_delay_{each}").alias(f"launch_delay_{each}_ns") for each in ("mean", "p50", "p99", "max")]
    counted = ("short_kernel_count", "long_delay_count", "launch_delay_count")
    return joined.select(
        *[name for name in counts.columns if name != "api"],
        *[F.coalesce(name, F.lit(0)).alias(name) for name in counted],
        *delays,
        *duration_columns(),
        F.lit(METRIC_VERSION).alias("metric_version"),
    )


def _kernel_facts(launches: DataFrame, kernels: DataFrame, parameters: Parameters) -> DataFrame:
    """Per function (`api`): kernels shorter than their call, and delays that no busy stream explains."""
    # The stream explains a delay while it was busy: what remains is the wait with the stream free.
    call_start = F.col("start_ns") - F.col("launch_delay_ns")
    waited = F.col("start_ns") - F.greatest(call_start, F.coalesce("busy_until_ns", call_start))
    linked = free_before(kernels).select(
        PLACE, "launch_id", "duration_ns", F.coalesce(waited > parameters.long_delay_ns, F.lit(False)).alias("is_long")
    )
    calls = launches.select(place(*SOURCE_KEY), "launch_id", F.col("duration_ns").alias("call_ns"), "api")
    return (
        linked.join(calls, [PLACE, "launch_id"])
        .groupBy("api")
        .agg(
            F.sum((F.col("duration_ns") < F.col("call_ns")).cast("bigint")).alias("short_kernel_count"),
            F.sum(F.col("is_long").cast("bigint")).alias("long_delay_count"),
        )
    )
