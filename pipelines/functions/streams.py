"""Neighbours on a stream."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import SLICE_NS
from tracelake.pipelines.functions.where import SOURCE_KEY

_STREAM = [*SOURCE_KEY, "device_id", "stream_key"]


def next_on_stream(kernels: DataFrame) -> DataFrame:
    """Kernels with `following`: (start_ns, end_ns, launch_id) of the next kernel on their stream that has a length and
    starts strictly later; NULL for the last.

    A stream is cut into slices of time; what follows a slice's last kernel is carried in from the slices after it.
    """
    fields = F.struct("start_ns", "end_ns", "launch_id")
    # Streams may be NULL; as a key, NULL is a stream of its own.
    keyed = kernels.withColumn("stream_key", F.coalesce("stream_id", F.lit(-(1 << 62)))).withColumn(
        "slice", F.call_function("div", F.col("start_ns"), F.lit(SLICE_NS))
    )
    real = F.when(F.col("end_ns") > F.col("start_ns"), fields)
    starts = keyed.groupBy(*_STREAM, "slice").agg(F.min(real).alias("first"))
    after = Window.partitionBy(*_STREAM).orderBy("slice").rowsBetween(1, Window.unboundedFollowing)
    edges = starts.select(*_STREAM, "slice", F.first("first", ignorenulls=True).over(after).alias("edge"))
    in_slice = Window.partitionBy(*_STREAM, "slice").orderBy("start_ns").rangeBetween(1, Window.unboundedFollowing)
    following = F.coalesce(F.first(real, ignorenulls=True).over(in_slice), F.col("edge"))
    joined = keyed.join(edges, [*_STREAM, "slice"], "left")
    return joined.withColumn("following", following).drop("edge", "slice", "stream_key")
