"""Host ranges that the program named, with their nesting and the steps among them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import nested
from tracelake.pipelines.functions.names import named
from tracelake.pipelines.functions.where import SOURCE_KEY, one_per_window, with_where
from tracelake.pipelines.parameters import DEFAULT, Parameters
from tracelake.schemas.steps import INFERRED_STEP

_THREAD = [*SOURCE_KEY, "thread_id"]


def ranges(
    source: DataFrame, annotation: DataFrame, step_periods: DataFrame, parameters: Parameters = DEFAULT
) -> DataFrame:
    """One row per host annotation, and per inferred step of a window without marked ones.

    A step is a range whose whole text matches a step pattern, on the thread that runs most of them, outside any other
    step. A range that was never closed nests as if open to the end of its window.
    """
    host = named(annotation, parameters).filter("side = 'host'")
    placed = with_where(_with_steps(_nested(host, source)), source)
    marked = placed.drop("side", "device_index", "stream_id").withColumn("is_inferred", F.lit(False))
    return marked.unionByName(_inferred(step_periods))


def _inferred(step_periods: DataFrame) -> DataFrame:
    """Inferred steps as ranges: they hold no range and lie in none, for a range may cross their bounds."""
    where = ["day", *SOURCE_KEY, "attempt", "node_id", "rank"]
    nexts = F.slice("starts_ns", 2, F.size("starts_ns")).alias("next_ns")
    each = F.posexplode(F.arrays_zip("starts_ns", nexts)).alias("pos", "step")
    steps = step_periods.select(*where, "thread_id", "end_ns", each)
    number, start = F.col("pos").cast("bigint"), F.col("step.starts_ns")
    until = F.coalesce("step.next_ns", "end_ns")
    return steps.select(
        *where, "thread_id", start.alias("start_ns"), until.alias("end_ns"), (until - start).alias("duration_ns"),
        (-1 - number).alias("annotation_id"), F.lit(None).cast("bigint").alias("parent_id"),
        # Nobody gave it a number: that of its attempt is its occurrence in the aggregates.
        F.lit(INFERRED_STEP).alias("name"), F.lit(None).cast("bigint").alias("index"),
        F.lit(INFERRED_STEP).alias("text"), F.lit(0).alias("depth"),
        F.lit(True).alias("is_closed"), F.lit(True).alias("is_step"), number.alias("step_occurrence"),
        F.lit(True).alias("is_inferred"), F.array().cast("array<string>").alias("flags"),
    )  # fmt: skip


def _nested(host: DataFrame, source: DataFrame) -> DataFrame:
    bound = one_per_window(source).select(*SOURCE_KEY, F.greatest("host_end_ns", "window_end_ns").alias("bound"))
    ranges = host.join(F.broadcast(bound), SOURCE_KEY).withColumn("id", F.col("annotation_id"))
    closed = F.coalesce("end_ns", F.greatest("bound", F.col("start_ns") + 1))
    outlives = F.when(F.col("is_outliving"), F.lit("outlives_parent"))
    flags = F.array_compact(F.array(outlives, F.when(~F.col("is_closed"), F.lit("not_closed"))))
    nest = nested(ranges.withColumn("raw_end_ns", F.col("end_ns")).withColumn("end_ns", closed), _THREAD)
    return (
        nest.withColumn("flags", flags)
        .withColumn("end_ns", F.col("raw_end_ns"))
        .drop("id", "bound", "raw_end_ns", "is_outliving")
    )


def _with_steps(host: DataFrame) -> DataFrame:
    spent = F.sum(F.when(F.col("matches_step"), F.coalesce("duration_ns", F.lit(0)) + 1).otherwise(0))
    threads = host.groupBy(*_THREAD).agg(spent.alias("spent"))
    most = threads.groupBy(*SOURCE_KEY).agg(
        F.max_by("thread_id", F.struct("spent", -F.col("thread_id"))).alias("step_thread_id")
    )
    marked = host.join(F.broadcast(most), SOURCE_KEY).withColumn("is_inside", _inside_another())
    on_thread = F.col("thread_id").eqNullSafe(F.col("step_thread_id"))
    is_step = F.col("matches_step") & on_thread & ~F.col("is_inside")
    order = Window.partitionBy(*SOURCE_KEY, "name").orderBy("start_ns", "annotation_id")
    steps = (
        marked.filter(is_step)
        .withColumn("step_occurrence", (F.row_number().over(order) - 1).cast("bigint"))
        .select(*SOURCE_KEY, "annotation_id", "step_occurrence")
    )
    return (
        marked.join(steps, [*SOURCE_KEY, "annotation_id"], "left")
        .withColumn("is_step", F.col("step_occurrence").isNotNull())
        .drop("is_inside", "step_thread_id", "matches_step")
    )


def _inside_another() -> Column:
    """Whether an earlier-opened matching range of the thread is still open here; one never closed holds nothing."""
    before = (
        Window.partitionBy(*_THREAD)
        .orderBy("start_ns", "depth", "annotation_id")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    reach = F.max(F.when(F.col("matches_step"), F.col("end_ns"))).over(before)
    return F.coalesce(reach > F.col("start_ns"), F.lit(False))
