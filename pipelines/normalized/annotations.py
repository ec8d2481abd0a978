"""Ranges that the program named, with their nesting, the steps among them, and the device time that they launched."""

# No `from __future__ import annotations` here: it would take the name that the table's function must have.
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import union_ns
from tracelake.pipelines.functions.names import named
from tracelake.pipelines.functions.where import SOURCE_KEY, with_device, with_where
from tracelake.pipelines.parameters import DEFAULT, Parameters

_KEY = [*SOURCE_KEY, "annotation_id"]


def annotations(
    source: DataFrame,
    annotation: DataFrame,
    ranges: DataFrame,
    kernels: DataFrame,
    memops: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """One row per annotation. A tool's device-side copies are kept beside; they make no step and no nesting.

    gpu_exclusive_ns counts the events whose launch has the range innermost, gpu_time_ns those of the ranges inside it
    too: union per device, summed over devices. NULL where the window has no device event at all.
    """
    host = _with_gpu(ranges, kernels, memops).withColumns(
        {"device_id": F.lit(None).cast("string"), "side": F.lit("host")}
    )
    device = with_device(with_where(named(annotation, parameters).filter("side = 'device'"), source), source)
    copies = device.withColumns({"is_step": F.lit(False), "flags": F.array().cast("array<string>")})
    return host.unionByName(copies.drop("device_index", "matches_step", "stream_id"), allowMissingColumns=True)


def _with_gpu(host: DataFrame, kernels: DataFrame, memops: DataFrame) -> DataFrame:
    columns = [*SOURCE_KEY, "device_id", "annotation_id", "start_ns"]
    events = kernels.select(*columns, F.col("effective_end_ns").alias("end_ns")).unionByName(
        memops.select(*columns, "end_ns")
    )
    launched = events.filter("annotation_id IS NOT NULL")
    own = _sum_of_devices(launched).withColumnRenamed("gpu_ns", "gpu_exclusive_ns").drop("gpu_span_ns")
    around = launched.join(_ancestors(host), _KEY).drop("annotation_id")
    all_ = _sum_of_devices(around.withColumnRenamed("ancestor_id", "annotation_id"))
    captured = events.select(*SOURCE_KEY).distinct().withColumn("is_captured", F.lit(True))
    joined = host.join(own, _KEY, "left").join(all_, _KEY, "left").join(F.broadcast(captured), SOURCE_KEY, "left")
    own_ns, all_ns = (
        F.when(F.col("is_captured"), F.coalesce(name, F.lit(0))) for name in ("gpu_exclusive_ns", "gpu_ns")
    )
    joined = joined.withColumns({"gpu_exclusive_ns": own_ns, "gpu_time_ns": all_ns})
    return joined.drop("is_captured", "gpu_ns")


def _sum_of_devices(events: DataFrame) -> DataFrame:
    united = union_ns(events, [*_KEY, "device_id"])
    return united.groupBy(*_KEY).agg(
        F.sum("union_ns").alias("gpu_ns"),
        (F.max("end_ns") - F.min("start_ns")).alias("gpu_span_ns"),
    )


def _ancestors(host: DataFrame) -> DataFrame:
    """(job_id, source_id, annotation_id, ancestor_id): every range with itself and each range around it."""
    place = F.struct("start_ns", "depth", "annotation_id").alias("place")
    asks = host.select(
        *SOURCE_KEY, "thread_id", place, "annotation_id", F.explode(F.sequence(F.lit(0), F.col("depth"))).alias("level")
    )
    marks = host.select(
        *SOURCE_KEY, "thread_id", place, F.col("depth").alias("level"), F.col("annotation_id").alias("ancestor_id")
    )
    both = asks.unionByName(marks, allowMissingColumns=True)
    so_far = (
        Window.partitionBy(*SOURCE_KEY, "thread_id", "level")
        .orderBy("place")
        .rangeBetween(Window.unboundedPreceding, 0)
    )
    found = both.withColumn("ancestor_id", F.last("ancestor_id", ignorenulls=True).over(so_far))
    return found.filter("annotation_id IS NOT NULL").select(*SOURCE_KEY, "annotation_id", "ancestor_id")
