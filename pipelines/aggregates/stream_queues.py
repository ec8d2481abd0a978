"""How far the host runs ahead of each stream."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import clipped
from tracelake.pipelines.functions.intervals import sliced
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_STREAM = ["job_id", "attempt", "device_id", "stream_id"]


def stream_queues(
    sources: DataFrame, kernels: DataFrame, memops: DataFrame, parameters: Parameters = DEFAULT
) -> DataFrame:
    """One row per stream. A launch is in the queue from its start until its first event starts; clipped to windows.

    Withheld windows are left out, and launches whose event precedes them too.
    """
    windows = sources.filter("gpu_reason IS NULL")
    bounds = windows.select(place(*SOURCE_KEY), "window_start_ns", "window_end_ns")
    columns: list[Column | str] = [place(*SOURCE_KEY), F.xxhash64(*_STREAM).alias("lane"), *_STREAM, "node_id", "rank"]
    first = [F.col("start_ns").alias("end_ns"), (F.col("start_ns") - F.col("launch_delay_ns")).alias("start_ns")]
    waits = kernels.select(*columns, *first).unionByName(memops.select(*columns, *first)).filter("start_ns IS NOT NULL")
    inside = waits.join(
        F.broadcast(bounds.withColumn("length", F.col("window_end_ns") - F.col("window_start_ns"))), PLACE
    )
    streams = (
        inside.groupBy("lane", PLACE, *_STREAM, "length")
        .agg(F.min("node_id").alias("node_id"), F.min("rank").alias("rank"), F.count(F.lit(1)).alias("launches"))
        .groupBy("lane", *_STREAM)
        .agg(
            F.min("node_id").alias("node_id"),
            F.min("rank").alias("rank"),
            F.sum("launches").alias("launch_count"),
            F.sum("length").alias("window_ns"),
        )
    )
    lengths = _lengths(clipped(waits.select(PLACE, "lane", "start_ns", "end_ns"), bounds, [PLACE]))
    return _told(streams, lengths, parameters).select(
        *_STREAM[:2], "node_id", "rank", *_STREAM[2:], "launch_count", "window_ns", "queued_ns", "queue_p50_count",
        "queue_max_count", "empty_ratio", "full_ratio", F.lit(METRIC_VERSION).alias("metric_version"),
    )  # fmt: skip


def _lengths(waits: DataFrame) -> DataFrame:
    """Per stream, for how long its queue had each length above 0. Each slice of time is counted for itself."""
    pieces = sliced(waits, "start_ns", "end_ns")
    edges = F.array(
        F.struct(F.col("start_ns").alias("at"), F.lit(1).alias("step")),
        F.struct(F.col("end_ns").alias("at"), F.lit(-1).alias("step")),
    )
    key = [PLACE, "lane", "slice"]
    in_time = Window.partitionBy(*key).orderBy("at")
    queue = F.sum("step").over(in_time.rowsBetween(Window.unboundedPreceding, 0))
    told = pieces.select(*key, F.explode(edges).alias("one")).select(*key, "one.*")
    stretches = told.select("lane", queue.alias("queue"), (F.lead("at").over(in_time) - F.col("at")).alias("ns"))
    return stretches.filter("ns > 0 AND queue > 0").groupBy("lane", "queue").agg(F.sum("ns").alias("ns"))


def _told(streams: DataFrame, lengths: DataFrame, parameters: Parameters) -> DataFrame:
    longest = Window.partitionBy("lane").orderBy(F.desc("queue")).rowsBetween(Window.unboundedPreceding, 0)
    ranked = lengths.join(streams.select("lane", "window_ns"), "lane").withColumn("above_ns", F.sum("ns").over(longest))
    # At this length or above for more than half of the time.
    is_median = F.col("above_ns") * 2 > F.col("window_ns")
    sums = ranked.groupBy("lane").agg(
        F.sum("ns").alias("queued_ns"),
        F.max(F.when(is_median, F.col("queue"))).alias("median"),
        F.max("queue").alias("queue_max_count"),
        F.sum(F.when(F.col("queue") >= parameters.queue_full_count, F.col("ns")).otherwise(0)).alias("full_ns"),
    )
    zero = {name: F.coalesce(name, F.lit(0)) for name in ("queued_ns", "queue_max_count", "full_ns")}
    rows = streams.join(sums, "lane", "left").withColumns(zero)
    length = F.when(F.col("window_ns") > 0, F.col("window_ns"))
    return rows.withColumns(
        {
            "queue_p50_count": F.coalesce("median", F.lit(0)),
            "empty_ratio": 1 - F.col("queued_ns") / length,
            "full_ratio": F.col("full_ns") / length,
        }
    )
