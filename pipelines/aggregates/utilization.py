"""Utilization over time, per device and node."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import with_bucket
from tracelake.pipelines.functions.where import SOURCE_KEY
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_FROM_LEDGER = {
    "gpu_active_ratio": "gpu_active_ratio",
    "kernel_busy_ratio": "kernel_busy_ratio",
    "compute_ratio": "compute_ns / window_ns",
    "exposed_comm_ratio": "exposed_comm_ns / window_ns",
}
_SAMPLED = {("device", "gpu_util_ratio"): "gpu_util_sampled_ratio", ("core", "cpu_util_ratio"): "cpu_util_ratio"}
_KEY = ["job_id", "attempt", "node_id", "entity_kind", "entity_id", "metric"]


def utilization(
    sources: DataFrame, samples: DataFrame, device_ledger: DataFrame, parameters: Parameters = DEFAULT
) -> DataFrame:
    """Devices per window and bucket; nodes as the mean over their devices, on a grid of the node's own.

    A node's grid starts with its first window of the attempt; a device's bucket counts where it begins, to the nearest
    bucket. Sampled metrics average valid samples inside the windows only, beside their coverage.
    """
    windows = with_bucket(sources, parameters.time_bucket_most_count)
    devices = _devices(device_ledger)
    grid = _grid(windows)
    rows = devices.unionByName(_nodes(devices, grid), allowMissingColumns=True).unionByName(
        _sampled(samples, windows, grid), allowMissingColumns=True
    )
    return rows.withColumn("metric_version", F.lit(METRIC_VERSION))


def _devices(device_ledger: DataFrame) -> DataFrame:
    buckets = device_ledger.filter("scope = 'bucket' AND window_ns > 0")
    values = F.array(*[
        F.struct(F.lit(metric).alias("metric"), F.expr(value).cast("double").alias("value_ratio"))
        for metric, value in _FROM_LEDGER.items()
    ])  # fmt: skip
    return buckets.withColumn("one", F.explode(values)).select(
        "job_id", "attempt", "source_id", "node_id", "rank", F.lit("device").alias("entity_kind"),
        F.col("device_id").alias("entity_id"), "one.*", "bucket_start_ns", F.col("window_ns").alias("bucket_ns"),
        F.when(F.col("one.value_ratio").isNotNull(), 1.0).otherwise(0.0).alias("coverage_ratio"), "reason",
    )  # fmt: skip


def _grid(windows: DataFrame) -> DataFrame:
    """Per attempt and node: where its grid starts and how wide its buckets are."""
    return (
        windows.filter("node_id IS NOT NULL")
        .groupBy("job_id", "attempt", "node_id")
        .agg(F.min("window_start_ns").alias("origin_ns"), F.max("bucket_ns").alias("grid_ns"))
    )


def _nodes(devices: DataFrame, grid: DataFrame) -> DataFrame:
    placed = devices.join(F.broadcast(grid), ["job_id", "attempt", "node_id"])
    half = F.call_function("div", F.col("grid_ns"), F.lit(2))
    bucket = F.call_function("div", F.col("bucket_start_ns") - F.col("origin_ns") + half, F.col("grid_ns"))
    known = F.col("value_ratio").isNotNull()
    weight = F.when(known, F.col("bucket_ns"))
    grouped = (
        placed.withColumn("entity_kind", F.lit("node"))
        .withColumn("entity_id", F.col("node_id"))
        .withColumn("bucket", bucket)
        .groupBy(*_KEY, "origin_ns", "grid_ns", "bucket")
        .agg(
            (F.sum(F.col("value_ratio") * weight) / F.sum(weight)).alias("value_ratio"),
            (F.coalesce(F.sum(weight), F.lit(0)) / F.sum("bucket_ns")).alias("coverage_ratio"),
            F.max(F.when(~known, F.col("reason"))).alias("reason"),
        )
    )
    return _on_grid(grouped)


def _sampled(samples: DataFrame, windows: DataFrame, grid: DataFrame) -> DataFrame:
    """GPU utilization as the driver samples it, per device; CPU utilization as the mean over a node's cores."""
    bounds = windows.select(*SOURCE_KEY, "window_start_ns", "window_end_ns")
    inside = samples.join(F.broadcast(bounds), SOURCE_KEY).filter("at_ns >= window_start_ns AND at_ns < window_end_ns")
    metric = F.lit(None).cast("string")
    for (kind, name), shown in _SAMPLED.items():
        metric = F.when((F.col("entity_kind") == kind) & (F.col("metric") == name), F.lit(shown)).otherwise(metric)
    chosen = inside.withColumn("metric", metric).filter("metric IS NOT NULL")
    on_core = F.col("entity_kind") == "core"
    placed = chosen.join(F.broadcast(_wide_enough(chosen, grid)), ["job_id", "attempt", "node_id"])
    grouped = (
        placed.withColumn("entity_id", F.when(on_core, F.col("node_id")).otherwise(F.col("entity_id")))
        .withColumn("entity_kind", F.when(on_core, F.lit("node")).otherwise(F.lit("device")))
        .withColumn("bucket", F.call_function("div", F.col("at_ns") - F.col("origin_ns"), F.col("grid_ns")))
        .groupBy(*_KEY, "origin_ns", "grid_ns", "bucket")
        .agg(
            F.avg(F.when(F.col("is_valid"), F.col("value"))).alias("value_ratio"),
            F.avg(F.col("is_valid").cast("double")).alias("coverage_ratio"),
            F.max(F.when(~F.col("is_valid"), F.col("reason"))).alias("reason"),
        )
    )
    return _on_grid(grouped)


def _wide_enough(samples: DataFrame, grid: DataFrame) -> DataFrame:
    """The grid with buckets that hold a reading each: a short window's are narrower than the sampler's interval."""
    span = F.max("at_ns") - F.min("at_ns")
    gaps = F.greatest(F.count(F.lit(1)) - 1, F.lit(1))
    series = samples.groupBy("job_id", "attempt", "node_id", "source_id", "entity_kind", "entity_id", "metric")
    intervals = series.agg(F.call_function("div", span, gaps).alias("interval_ns"))
    node = ["job_id", "attempt", "node_id"]
    joined = grid.join(intervals.groupBy(*node).agg(F.max("interval_ns").alias("interval_ns")), node)
    # A sampler is now and then a little late; a tenth more than its interval leaves no bucket without one.
    times = F.ceil(F.coalesce("interval_ns", F.lit(0)) * 1.1 / F.col("grid_ns"))
    return joined.withColumn("grid_ns", F.col("grid_ns") * F.greatest(times, F.lit(1))).drop("interval_ns")


def _on_grid(grouped: DataFrame) -> DataFrame:
    start: Column = F.col("origin_ns") + F.col("bucket") * F.col("grid_ns")
    return (
        grouped.withColumn("bucket_start_ns", start)
        .withColumn("bucket_ns", F.col("grid_ns"))
        .withColumn("reason", F.when(F.col("value_ratio").isNull(), F.col("reason")))
        .drop("origin_ns", "grid_ns", "bucket")
    )
