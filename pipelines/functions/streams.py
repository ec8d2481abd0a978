"""Neighbours on a stream."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import SLICE_NS
from tracelake.pipelines.functions.where import SOURCE_KEY, place

_STREAM = [*SOURCE_KEY, "device_id", "stream_key"]
_MOST_SLICES = 20
"""A kernel of more slices (100 s) is not believed to be the only one of its stream."""


def lane() -> Column:
    """A stream of a device in one source, as a number; where the stream is not known, one of its own."""
    return F.xxhash64(*SOURCE_KEY, "device_id", "stream_id")


def free_before(kernels: DataFrame) -> DataFrame:
    """`place` of the source, launch_id, start_ns, duration_ns, launch_delay_ns of each kernel, with busy_until_ns: the
    latest effective end of those before it on its stream, NULL for the first.
    """
    slice_ = F.call_function("div", F.col("start_ns"), F.lit(SLICE_NS)).alias("slice")
    ran = kernels.select(
        place(*SOURCE_KEY), lane().alias("lane"), slice_, "start_ns",
        "effective_end_ns", "launch_id", "duration_ns", "launch_delay_ns", F.lit(True).alias("is_kernel"),
    )  # fmt: skip
    slices = ran.groupBy("lane", "slice").agg(F.max("effective_end_ns").alias("end"))
    before = Window.partitionBy("lane").orderBy("slice").rowsBetween(Window.unboundedPreceding, -1)
    # What a slice needs from those before it comes as a row that is first in it.
    edges = slices.select(
        "lane", "slice", F.lit(False).alias("is_kernel"), F.max("end").over(before).alias("effective_end_ns"),
    )  # fmt: skip
    in_time = Window.partitionBy("lane", "slice").orderBy("is_kernel", "start_ns", "effective_end_ns")
    so_far = in_time.rowsBetween(Window.unboundedPreceding, -1)
    both = ran.unionByName(edges, allowMissingColumns=True)
    return both.withColumn("busy_until_ns", F.max("effective_end_ns").over(so_far)).filter("is_kernel")


def crowded(kernels: DataFrame) -> DataFrame:
    """(`lane`) of streams on which a kernel may contain a later one: `lane`, start_ns and end_ns of all in, few out.

    Where kernels run one after the other, as they do on a sound stream, nothing more is to be looked at.
    """
    first = F.call_function("div", F.col("start_ns"), F.lit(SLICE_NS))
    last = F.call_function("div", F.col("end_ns") - 1, F.lit(SLICE_NS))
    is_endless = last - first > _MOST_SLICES
    # A kernel stands in each slice that it reaches into, with its own start and end.
    reached = F.explode(F.sequence(first, F.least(last, first + _MOST_SLICES)))
    pieces = kernels.filter("end_ns > start_ns").select(
        "lane", "start_ns", "end_ns", is_endless.alias("is_endless"), reached.alias("slice")
    )
    latest_first = Window.partitionBy("lane", "slice").orderBy(F.desc("start_ns"))
    least = F.min("end_ns").over(latest_first.rowsBetween(Window.unboundedPreceding, -1))
    return pieces.withColumn("least", least).filter("least <= end_ns OR is_endless").select("lane").distinct()


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
    # Latest first: Spark counts a frame up to the partition's end anew for every row.
    after = Window.partitionBy(*_STREAM).orderBy(F.desc("slice")).rowsBetween(Window.unboundedPreceding, -1)
    edges = slices.select(
        *_STREAM, "slice", *[F.min(name).over(after).alias(f"edge_{name}") for name in ("first", "least")]
    )
    later = (
        Window.partitionBy(*_STREAM, "slice").orderBy(F.desc("start_ns")).rangeBetween(Window.unboundedPreceding, -1)
    )
    joined = keyed.join(edges, [*_STREAM, "slice"], "left")
    following = joined.withColumns(
        {
            "next_start_ns": F.least(F.min(start).over(later), F.col("edge_first")),
            "_least": F.least(F.min(end).over(later), F.col("edge_least")),
        }
    )
    # Of a launch with several kernels, the one that ends first may be its own: then ask what follows its last kernel.
    launch = (
        Window.partitionBy(*_STREAM, "launch_id")
        .orderBy("start_ns")
        .rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    )
    of_other = [F.when(~_same_launch(at), at["end_ns"]) for at in (F.col("_least"), F.last("_least").over(launch))]
    return following.withColumn("earliest_end_ns", F.least(*of_other)).drop(
        "edge_first", "edge_least", "_least", "slice", "stream_key"
    )


def _same_launch(later: Column) -> Column:
    return F.coalesce(later["launch_id"] == F.col("launch_id"), F.lit(False))
