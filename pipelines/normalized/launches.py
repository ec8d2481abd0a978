"""Host calls that start device work: what they started, and which step and annotation they fall in."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import FOREVER_NS, opened, tops
from tracelake.pipelines.functions.steps import was_written
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place, with_place, with_where
from tracelake.schemas.apis import KERNEL_PRODUCING, VERSION_SUFFIX


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
    innermost one open then on the call's thread; where none is, on the thread that runs the steps. Inferred steps are
    no annotation.
    """
    calls = (
        with_place(launch)
        .withColumnRenamed("event_id", "launch_id")
        .withColumn("end_ns", F.col("start_ns") + F.col("duration_ns"))
    )
    started = _started(calls, kernel, memop)
    attributed = with_where(_attributed(_producing(started, with_place(sync)), with_place(ranges)), source)
    delay = F.col("first_event_start_ns") - F.col("start_ns")
    return (
        attributed.withColumn("launch_delay_ns", F.when(delay >= 0, delay))
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
    """Calls with what each started: kernels, memory operations, and the start of the first of either.

    Events belong to calls as in `linked`; here the calls are kept.
    """
    columns = [place(*SOURCE_KEY), F.col("correlation_id").alias("id"), F.col("start_ns").alias("at")]
    events = kernel.select(*columns, "correlation_id", F.lit(1).alias("is_kernel")).unionByName(
        memop.select(*columns, "correlation_id", F.lit(0).alias("is_kernel"))
    )
    # A call without an id gets one of its own: together they would be one partition.
    id_ = F.when(F.col("correlation_id") > 0, F.col("correlation_id")).otherwise(-1 - F.col("launch_id"))
    marks = calls.withColumns({"id": id_, "at": F.col("start_ns"), "mark": F.col("launch_id")})
    both = marks.unionByName(events.filter("correlation_id > 0").drop("correlation_id"), allowMissingColumns=True)
    is_event = F.col("is_kernel").isNotNull()
    by_id = Window.partitionBy(PLACE, "id").orderBy("at", is_event)
    so_far = by_id.rowsBetween(Window.unboundedPreceding, 0)
    whole = by_id.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    owner = F.coalesce(F.last("mark", True).over(so_far), F.first("mark", True).over(whole))
    of_call = Window.partitionBy(PLACE, "id", "owner")
    counted = both.withColumn("owner", owner).withColumns(
        {
            "first_event_start_ns": F.min(F.when(is_event, F.col("at"))).over(of_call),
            "kernel_count": F.coalesce(F.sum("is_kernel").over(of_call), F.lit(0)),
            "memop_count": F.coalesce(F.sum(1 - F.col("is_kernel")).over(of_call), F.lit(0)),
        }
    )
    return counted.filter("mark IS NOT NULL").drop("id", "at", "mark", "owner", "is_kernel")


def _producing(calls: DataFrame, sync: DataFrame) -> DataFrame:
    """Mark the calls that should produce a kernel; those inside stream capture on their thread only record."""
    thread = [PLACE, "thread_id"]
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
    thread = [PLACE, "thread_id"]
    step_thread = host.filter("is_step").groupBy(PLACE).agg(F.min_by("thread_id", "start_ns").alias("thread_id"))
    named = host.filter(was_written())
    on_step_thread = named.join(F.broadcast(step_thread), thread, "left_semi")
    steps = host.filter("is_step").select(
        PLACE, F.struct("name", "step_occurrence").alias("value"), "start_ns", "end_ns"
    )
    told = {
        "step": (steps, []),
        "step_annotation_id": (tops(on_step_thread, [PLACE]), []),
        "own_annotation_id": (tops(named, thread), ["thread_id"]),
    }
    placed = opened(calls.withColumn("at_ns", F.col("start_ns")), [PLACE], told)
    return (
        placed.withColumn("annotation_id", F.coalesce("own_annotation_id", "step_annotation_id"))
        .withColumn("step_name", F.col("step.name"))
        .withColumn("step_occurrence", F.col("step.step_occurrence"))
        .drop("own_annotation_id", "step_annotation_id", "step")
    )
