"""Ranges that the program named, with their nesting, the steps among them, and the device time that they launched."""

# No `from __future__ import annotations` here: it would take the name that the table's function must have.
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import added, sliced
from tracelake.pipelines.functions.names import named
from tracelake.pipelines.functions.steps import was_written
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place, with_device, with_where
from tracelake.pipelines.parameters import DEFAULT, Parameters

_KEY = [PLACE, "annotation_id"]


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
    too: union per device, summed over devices. NULL where the window has no device event at all. An inferred step has
    what it launched; its own is what lies in no range.
    """
    host = _with_gpu(ranges, kernels, memops).withColumns(
        {"device_id": F.lit(None).cast("string"), "side": F.lit("host")}
    )
    device = with_device(with_where(named(annotation, parameters).filter("side = 'device'"), source), source)
    copies = device.withColumns(
        {"is_step": F.lit(False), "is_inferred": F.lit(False), "flags": F.array().cast("array<string>")}
    )
    return host.unionByName(copies.drop("device_index", "matches_step", "stream_id"), allowMissingColumns=True)


def _with_gpu(host: DataFrame, kernels: DataFrame, memops: DataFrame) -> DataFrame:
    device = F.xxhash64("device_id").alias("device")
    step = ["step_name", "step_occurrence"]
    columns: list[Column | str] = [place(*SOURCE_KEY), device, "annotation_id", *step, "start_ns"]
    events = kernels.select(*columns, F.col("effective_end_ns").alias("end_ns")).unionByName(
        memops.select(*columns, "end_ns")
    )
    captured = events.select(PLACE).distinct().withColumn("is_captured", F.lit(True))
    placed = host.withColumn(PLACE, place(*SOURCE_KEY))
    named = events.filter("annotation_id IS NOT NULL").join(_ancestors(host.filter(was_written())), _KEY)
    inferred = placed.filter("is_inferred").select(
        PLACE, F.col("name").alias("step_name"), "step_occurrence", F.col("annotation_id").alias("ancestor_id")
    )
    launched = named.unionByName(events.join(F.broadcast(inferred), [PLACE, *step]))
    joined = placed.join(_spent(launched), _KEY, "left").join(F.broadcast(captured), PLACE, "left")
    own_ns, all_ns = (
        F.when(F.col("is_captured"), F.coalesce(name, F.lit(0))) for name in ("gpu_exclusive_ns", "gpu_ns")
    )
    joined = joined.withColumns({"gpu_exclusive_ns": own_ns, "gpu_time_ns": all_ns})
    return joined.drop("is_captured", "gpu_ns", PLACE)


def _spent(launched: DataFrame) -> DataFrame:
    """Per range: gpu_ns of all events in it and gpu_exclusive_ns of its own, union per device, summed; gpu_span_ns."""
    columns = launched.select(
        PLACE, "device", F.col("ancestor_id").alias("annotation_id"), "start_ns", "end_ns",
        (F.col("ancestor_id") == F.coalesce("annotation_id", "ancestor_id")).alias("is_own"),
    )  # fmt: skip
    in_time = Window.partitionBy(*_KEY, "slice", "device").orderBy("start_ns")
    own = added(in_time, F.when(F.col("is_own"), F.col("end_ns")))
    pieces = sliced(columns, "start_ns", "end_ns").withColumns({"added_ns": added(in_time), "own_ns": own})
    return pieces.groupBy(*_KEY).agg(
        F.sum("added_ns").alias("gpu_ns"),
        F.sum("own_ns").alias("gpu_exclusive_ns"),
        (F.max("end_ns") - F.min("start_ns")).alias("gpu_span_ns"),
    )


def _ancestors(host: DataFrame) -> DataFrame:
    """(place, annotation_id, ancestor_id): every range with itself and each range around it."""
    order = F.struct("start_ns", "depth", "annotation_id").alias("order")
    asks = host.select(
        *SOURCE_KEY, "thread_id", order, "annotation_id", F.explode(F.sequence(F.lit(0), F.col("depth"))).alias("level")
    )
    marks = host.select(
        *SOURCE_KEY, "thread_id", order, F.col("depth").alias("level"), F.col("annotation_id").alias("ancestor_id")
    )
    both = asks.unionByName(marks, allowMissingColumns=True)
    so_far = (
        Window.partitionBy(*SOURCE_KEY, "thread_id", "level")
        .orderBy("order")
        .rangeBetween(Window.unboundedPreceding, 0)
    )
    found = both.withColumn("ancestor_id", F.last("ancestor_id", ignorenulls=True).over(so_far))
    return found.filter("annotation_id IS NOT NULL").select(place(*SOURCE_KEY), "annotation_id", "ancestor_id")
