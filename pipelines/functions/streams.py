"""Neighbours on a stream."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import SLICE_NS
from tracelake.pipelines.functions.where import SOURCE_KEY

_STREAM = [*SOURCE_KEY, "device_id", "stream_key"]


def next_on_stream(kernels: DataFrame) -> DataFrame:
    """Kernels with what follows them on their stream, of kernels that have a length and start strictly later:
    `next_start_ns`, and `earliest_end_ns`, the earliest end of one that another launch started. NULL for the last.

    A stream is cut into slices of time; what a slice needs from those after it is carried in.
    """
    # Streams may be NULL; as a key, NULL is a stream of its own.
    keyed = kernels.withColumns(
        {
            "stream_key": F.coalesce("stream_id", F.lit(-(1 << 62))),
            "slice": F.call_function("div", F.col("start_ns"), F.lit(SLICE_NS)),
        }
    )
    is_real = F.col("end_ns") > F.col("start_ns")
    start, end = F.when(is_real, F.col("start_ns")), F.when(is_real, F.struct("end_ns", "launch_id"))
    slices = keyed.groupBy(*_STREAM, "slice").agg(F.min(start).alias("first"), F.min(end).alias("least"))
    after = Window.partitionBy(*_STREAM).orderBy("slice").rowsBetween(1, Window.unboundedFollowing)
    edges = slices.select(
        *_STREAM, "slice", *[F.min(name).over(after).alias(f"edge_{name}") for name in ("first", "least")]
    )
    later = Window.partitionBy(*_STREAM, "slice").orderBy("start_ns").rangeBetween(1, Window.unboundedFollowing)
    joined = keyed.join(edges, [*_STREAM, "slice"], "left")
    following = joined.withColumns(
        {
            "next_start_ns": F.least(F.min(start).over(later), F.col("edge_first")),
            "_least": F.least(F.min(end).over(later), F.col("edge_least")),
        }
    )
    # Of a launch with several kernels, the one that ends first may be its own: then ask what follows its last kernel.
    launch = Window.partitionBy(*_STREAM, "launch_id").orderBy("start_ns").rowsBetween(0, Window.unboundedFollowing)
    of_other = [F.when(~_same_launch(at), at["end_ns"]) for at in (F.col("_least"), F.last("_least").over(launch))]
    return following.withColumn("earliest_end_ns", F.least(*of_other)).drop(
        "edge_first", "edge_least", "_least", "slice", "stream_key"
    )


def _same_launch(later: Column) -> Column:
    return F.coalesce(later["launch_id"] == F.col("launch_id"), F.lit(False))
