"""Where the time of each device went."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import DEVICE_KEY, PARTS, closed_steps, with_bucket
from tracelake.pipelines.functions.where import SOURCE_KEY
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_PLACE = ["job_id", "attempt", "source_id", "node_id", "rank", "device_id"]


def device_ledger(
    sources: DataFrame,
    devices: DataFrame,
    annotations: DataFrame,
    step_launches: DataFrame,
    device_activity: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """compute + exposed_comm + exposed_mem + idle = window, in integer nanoseconds, for each scope.

    Scope job is a device's windows together, those withheld left out; window, step and bucket lie in one window. Where
    launch coverage is low, or a step has launches but no device events, the parts are NULL with the reason.
    """
    windows = with_bucket(sources, parameters.time_bucket_most_count)
    facts = ["attempt", "node_id", "rank", "window_start_ns", "window_end_ns", "bucket_ns", "gpu_reason"]
    bounds = windows.select(*SOURCE_KEY, *facts, "launch_coverage_ratio")
    base = devices.select(*DEVICE_KEY).join(F.broadcast(bounds), SOURCE_KEY)
    parts = device_activity.drop("attempt", "metric_version")
    steps = closed_steps(annotations, windows)
    whole = _windows(base, parts).unionByName(_no_device(windows, devices), allowMissingColumns=True)
    scopes = (whole, _jobs(whole), _buckets(base, parts), _steps(base, parts, steps, step_launches))
    return _ratios(reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), scopes))


def _windows(base: DataFrame, parts: DataFrame) -> DataFrame:
    sums = parts.groupBy(*DEVICE_KEY).agg(*[F.sum(name).alias(name) for name in PARTS])
    rows = base.withColumn("window_ns", F.col("window_end_ns") - F.col("window_start_ns"))
    return _filled(rows.join(sums, DEVICE_KEY, "left"), "window", F.col("gpu_reason"))


def _buckets(base: DataFrame, parts: DataFrame) -> DataFrame:
    sums = parts.groupBy(*DEVICE_KEY, "bucket").agg(*[F.sum(name).alias(name) for name in PARTS])
    length = F.col("window_end_ns") - F.col("window_start_ns")
    last = F.call_function("div", length - 1, F.col("bucket_ns"))
    every = base.filter(length > 0).withColumn("bucket", F.explode(F.sequence(F.lit(0).cast("bigint"), last)))
    start = F.col("window_start_ns") + F.col("bucket") * F.col("bucket_ns")
    rows = every.withColumn("bucket_start_ns", start).withColumn(
        "window_ns", F.least(start + F.col("bucket_ns"), F.col("window_end_ns")) - start
    )
    return _filled(rows.join(sums, [*DEVICE_KEY, "bucket"], "left"), "bucket", F.col("gpu_reason"))


def _steps(base: DataFrame, parts: DataFrame, steps: DataFrame, step_launches: DataFrame) -> DataFrame:
    key = ["step_name", "step_occurrence"]
    sums = (
        parts.filter("step_name IS NOT NULL")
        .groupBy(*DEVICE_KEY, *key)
        .agg(*[F.sum(name).alias(name) for name in PARTS])
    )
    length = F.least("end_ns", "window_end_ns") - F.greatest("start_ns", "window_start_ns")
    step = steps.filter("NOT is_cut").select(
        *SOURCE_KEY, F.col("name").alias("step_name"), "step_occurrence", length.alias("window_ns")
    )
    launched = step_launches.select(*SOURCE_KEY, *key, "is_uncovered")
    rows = base.join(step, SOURCE_KEY).join(launched, [*SOURCE_KEY, *key], "left")
    reason = F.coalesce("gpu_reason", F.when(F.col("is_uncovered"), F.lit("uncovered")))
    return _filled(rows.join(sums, [*DEVICE_KEY, *key], "left"), "step", reason)


def _filled(rows: DataFrame, scope: str, reason: Column) -> DataFrame:
    """Parts that nothing covered are 0; all parts are NULL where there is a reason to withhold them."""
    known = reason.isNull()
    filled = rows.withColumns({name: F.when(known, F.coalesce(name, F.lit(0))) for name in PARTS})
    named = [name for name in ("step_name", "step_occurrence", "bucket_start_ns") if name in rows.columns]
    return filled.select(
        *_PLACE,
        F.lit(scope).alias("scope"),
        "window_ns",
        *PARTS,
        reason.alias("reason"),
        "launch_coverage_ratio",
        *named,
    )


def _no_device(windows: DataFrame, devices: DataFrame) -> DataFrame:
    """Windows without a device event keep one row that says why."""
    bare = windows.join(devices.select(*SOURCE_KEY).distinct(), SOURCE_KEY, "left_anti")
    return bare.select(
        *SOURCE_KEY, "attempt", "node_id", "rank", F.lit("window").alias("scope"), "launch_coverage_ratio",
        (F.col("window_end_ns") - F.col("window_start_ns")).alias("window_ns"),
        F.coalesce("gpu_reason", F.lit("no_gpu_activity_captured")).alias("reason"),
    )  # fmt: skip


def _jobs(rows: DataFrame) -> DataFrame:
    """A device's windows together: withheld ones are in no numerator and no denominator, and are said."""
    counted = F.col("reason").isNull()
    windows = rows.filter("scope = 'window' AND device_id IS NOT NULL")
    sums = windows.groupBy("job_id", "attempt", "device_id").agg(
        F.min("node_id").alias("node_id"),
        F.min("rank").alias("rank"),
        F.coalesce(F.sum(F.when(counted, F.col("window_ns"))), F.sum("window_ns")).alias("window_ns"),
        *[F.sum(name).alias(name) for name in PARTS],
        F.max("reason").alias("any_reason"),
        F.max(counted).alias("has_counted"),
        F.min("launch_coverage_ratio").alias("launch_coverage_ratio"),
    )
    partly = F.when(F.col("any_reason").isNotNull(), F.lit("partly_withheld"))
    reason = F.when(F.col("has_counted"), partly).otherwise(F.col("any_reason"))
    return sums.withColumn("reason", reason).withColumn("scope", F.lit("job")).drop("any_reason", "has_counted")


def _ratios(rows: DataFrame) -> DataFrame:
    active = F.col("compute_ns") + F.col("exposed_comm_ns") + F.col("exposed_mem_ns")
    has_length = F.col("window_ns") > 0
    busy = F.col("compute_ns") + F.col("exposed_comm_ns")
    return (
        rows.withColumn("idle_ns", F.col("window_ns") - active)
        .withColumn("gpu_active_ratio", F.when(has_length, active / F.col("window_ns")))
        .withColumn("kernel_busy_ratio", F.when(has_length, busy / F.col("window_ns")))
        .withColumn("comm_overlap_ratio", F.when(F.col("comm_ns") > 0, F.col("overlapped_comm_ns") / F.col("comm_ns")))
        .withColumn("metric_version", F.lit(METRIC_VERSION))
    )
