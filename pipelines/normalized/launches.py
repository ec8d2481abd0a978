"""Host calls that start device work: what they started, and which step and annotation they fall in."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import FOREVER_NS, innermost, open_then
from tracelake.pipelines.functions.links import linked
from tracelake.pipelines.functions.where import SOURCE_KEY, with_where
from tracelake.schemas.apis import KERNEL_PRODUCING, VERSION_SUFFIX

_LAUNCH_KEY = [*SOURCE_KEY, "launch_id"]


def launches(
    source: DataFrame,
    launch: DataFrame,
    sync: DataFrame,
    kernel: DataFrame,
    memop: DataFrame,
    ranges: DataFrame,
) -> DataFrame:
    """One row per call, whatever number of kernels it started (a graph launch starts many and is one launch).

    Steps: the step of the process whose host interval holds the call's start, whatever its thread. Annotation: the
    innermost one open then on the call's thread; where none is, on the thread that runs the steps.
    """
    calls = (
        with_where(launch, source)
        .withColumnRenamed("event_id", "launch_id")
        .withColumn("end_ns", F.col("start_ns") + F.col("duration_ns"))
    )
    started = calls.join(_started(calls, kernel, memop), _LAUNCH_KEY, "left")
    attributed = _attributed(_producing(started, sync), ranges)
    delay = F.col("first_event_start_ns") - F.col("start_ns")
    return (
        attributed.withColumn("launch_delay_ns", F.when(delay >= 0, delay))
        .withColumn("kernel_count", F.coalesce("kernel_count", F.lit(0)))
        .withColumn("memop_count", F.coalesce("memop_count", F.lit(0)))
        .withColumn(
            "flags",
            F.array_compact(
                F.array(
                    F.when(delay < 0, F.lit("before_launch")),
                    F.when(F.col("is_capturing"), F.lit("stream_capture")),
                )
            ),
        )
        .drop("is_capturing", "at_ns")
    )


def _started(calls: DataFrame, kernel: DataFrame, memop: DataFrame) -> DataFrame:
    """Per launch: kernels, memory operations, and the start of the first of either."""
    columns = [*SOURCE_KEY, "correlation_id", "start_ns", "event_id"]
    events = kernel.select(*columns, F.lit(1).alias("is_kernel")).unionByName(
        memop.select(*columns, F.lit(0).alias("is_kernel"))
    )
    owned = linked(events, calls).filter("launch IS NOT NULL").withColumn("launch_id", F.col("launch.launch_id"))
    return owned.groupBy(*_LAUNCH_KEY).agg(
        F.min("start_ns").alias("first_event_start_ns"),
        F.sum("is_kernel").alias("kernel_count"),
        F.sum(1 - F.col("is_kernel")).alias("memop_count"),
    )


def _producing(calls: DataFrame, sync: DataFrame) -> DataFrame:
    """Mark the calls that should produce a kernel; those inside stream capture on their thread only record."""
    thread = [*SOURCE_KEY, "thread_id"]
    in_time = Window.partitionBy(*thread).orderBy("start_ns", "event_id")
    captures = (
        sync.filter("kind IN ('stream_capture_begin', 'stream_capture_end')")
        .withColumn("until", F.coalesce(F.lead("start_ns").over(in_time), F.lit(FOREVER_NS)))
        .filter("kind = 'stream_capture_begin'")
        .groupBy(*thread)
        .agg(F.collect_list(F.struct("start_ns", "until")).alias("captures"))
    )
    inside = F.exists("captures", lambda c: (F.col("start_ns") >= c["start_ns"]) & (F.col("start_ns") < c["until"]))
    name = F.regexp_replace("api_name", VERSION_SUFFIX, "")
    return (
        calls.join(F.broadcast(captures), thread, "left")
        .withColumn("is_capturing", F.coalesce(inside, F.lit(False)))
        .withColumn("is_kernel_producing", name.isin(*sorted(KERNEL_PRODUCING)) & ~F.col("is_capturing"))
        .drop("captures")
    )


def _attributed(calls: DataFrame, ranges: DataFrame) -> DataFrame:
    host = ranges.withColumns(
        {
            "id": F.col("annotation_id"),
            "end_ns": F.coalesce("end_ns", F.lit(FOREVER_NS)),
        }
    )
    thread = [*SOURCE_KEY, "thread_id"]
    own = innermost(calls.withColumn("at_ns", F.col("start_ns")), host, thread, "own_annotation_id")
    step_thread = host.filter("is_step").groupBy(*SOURCE_KEY).agg(F.min_by("thread_id", "start_ns").alias("thread_id"))
    on_step_thread = host.join(F.broadcast(step_thread), thread, "left_semi")
    both = innermost(own, on_step_thread, SOURCE_KEY, "step_annotation_id")
    steps = host.filter("is_step").select(
        *SOURCE_KEY, F.struct("name", "step_occurrence").alias("value"), "start_ns", "end_ns"
    )
    placed = open_then(both, steps, SOURCE_KEY, "step")
    return (
        placed.withColumn("annotation_id", F.coalesce("own_annotation_id", "step_annotation_id"))
        .withColumn("step_name", F.col("step.name"))
        .withColumn("step_occurrence", F.col("step.step_occurrence"))
        .drop("own_annotation_id", "step_annotation_id", "step")
    )
