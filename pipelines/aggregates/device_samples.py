"""What samples say of each device."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.readings import readings
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_DEVICE = ["job_id", "attempt", "device_id"]


def device_samples(
    sources: DataFrame, devices: DataFrame, samples: DataFrame, parameters: Parameters = DEFAULT
) -> DataFrame:
    """One row per attempt and device, over valid readings inside its windows.

    Memory grows by the median slope between all pairs of time buckets (Theil and Sen), of which each counts by its
    lowest reading: what an iteration allocates and frees is no growth, nor is a single step up. Under too few readings
    nothing is said.
    """
    valid = F.when(F.col("is_valid"), F.col("value"))
    read = (
        readings(samples, sources)
        .filter("entity_kind = 'device'")
        .withColumnRenamed("entity_id", "device_id")
        .withColumn("value", valid)
    )
    sizes = devices.groupBy(*_DEVICE).agg(F.max("memory_bytes").alias("listed_bytes"))
    rows = _plain(read).join(_clocks(read, parameters), _DEVICE, "left").join(sizes, _DEVICE, "left")
    total = F.coalesce("listed_bytes", "read_bytes")
    trends = rows.withColumn("memory_total_bytes", total).join(_trend(read, parameters), _DEVICE, "left")
    judged = _judged(trends, parameters).withColumn("metric_version", F.lit(METRIC_VERSION))
    return judged.drop("listed_bytes", "read_bytes", "reading_count", "slope")


def _plain(read: DataFrame) -> DataFrame:
    def of(metric: str) -> Column:
        return F.when(F.col("metric") == metric, F.col("value"))

    return read.groupBy(*_DEVICE).agg(
        F.min("node_id").alias("node_id"),
        F.min("rank").alias("rank"),
        F.count(F.lit(1)).alias("sample_count"),
        F.avg(F.col("is_valid").cast("double")).alias("coverage_ratio"),
        F.avg(of("power")).alias("power_mean_watts"),
        F.max(of("power")).alias("power_max_watts"),
        F.max(of("sm_clock")).alias("clock_max_hz"),
        F.avg(of("throttled_ratio")).alias("throttled_ratio"),
        F.avg(of("power_capped_ratio")).alias("power_capped_ratio"),
        F.max(of("memory_used")).cast("bigint").alias("memory_max_bytes"),
        F.max(of("memory_total")).cast("bigint").alias("read_bytes"),
    )


def _clocks(read: DataFrame, parameters: Parameters) -> DataFrame:
    """The median clock, and the share of readings below it."""
    clocks = read.filter("metric = 'sm_clock' AND value IS NOT NULL")
    median = F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY value)")
    usual = clocks.groupBy(*_DEVICE).agg(median.alias("clock_median_hz"))
    is_low = F.col("value") < F.col("clock_median_hz") * (1 - parameters.clock_drop_min_ratio)
    return (
        clocks.join(F.broadcast(usual), _DEVICE)
        .groupBy(*_DEVICE, "clock_median_hz")
        .agg(F.avg(is_low.cast("double")).alias("low_clock_ratio"))
    )


def _trend(read: DataFrame, parameters: Parameters) -> DataFrame:
    """The median slope of memory per bucket, and the share of pairs of buckets that rise."""
    used = read.filter("metric = 'memory_used' AND value IS NOT NULL")
    whole = Window.partitionBy(*_DEVICE)
    first, span = F.min("at_ns").over(whole), F.max("at_ns").over(whole) - F.min("at_ns").over(whole) + 1
    place = F.call_function("div", (F.col("at_ns") - first) * parameters.leak_bucket_count, span)
    buckets = used.withColumn("bucket", place).groupBy(*_DEVICE, "bucket").agg(
        F.min("value").cast("bigint").alias("used"), F.count(F.lit(1)).alias("readings")
    )  # fmt: skip
    lines = buckets.groupBy(*_DEVICE).agg(
        F.sum("readings").alias("reading_count"), F.collect_list(F.struct("bucket", "used")).alias("all")
    )

    def slopes(a: Column) -> Column:
        later = F.filter("all", lambda b: b["bucket"] > a["bucket"])
        return F.transform(later, lambda b: (b["used"] - a["used"]) / (b["bucket"] - a["bucket"]))

    pairs = lines.withColumn("slopes", F.array_sort(F.flatten(F.transform("all", slopes))))
    count = F.size("slopes")
    middle = F.element_at("slopes", F.call_function("div", count + 1, F.lit(2)).cast("int"))
    rising = F.size(F.filter("slopes", lambda slope: slope > 0)) / count
    return pairs.filter(count > 0).select(
        *_DEVICE, "reading_count", middle.alias("slope"), rising.alias("memory_rising_ratio")
    )


def _judged(rows: DataFrame, parameters: Parameters) -> DataFrame:
    enough = F.coalesce(F.col("reading_count") >= parameters.leak_reading_min_count, F.lit(False))
    reason = F.when(F.col("memory_max_bytes").isNull(), F.lit("not_sampled")).otherwise(
        F.when(~enough, F.lit("too_few_readings")).when(
            F.col("memory_total_bytes").isNull(), F.lit("memory_size_unknown")
        )
    )
    growth = F.when(enough, F.round(F.col("slope") * parameters.leak_bucket_count).cast("bigint"))
    ratio = growth / F.col("memory_total_bytes")
    is_leak = (ratio >= parameters.leak_growth_min_ratio) & (
        F.col("memory_rising_ratio") >= parameters.leak_rising_min_ratio
    )
    return rows.withColumns(
        {
            "memory_growth_bytes": growth,
            "memory_growth_ratio": ratio,
            "memory_rising_ratio": F.when(enough, F.col("memory_rising_ratio")),
            "is_memory_leak": F.when(reason.isNull(), is_leak),
            "memory_reason": reason,
        }
    )
