"""What each step is made of."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import closed_steps
from tracelake.pipelines.functions.collectives import sends
from tracelake.pipelines.functions.ledger import CLASSES, SENDS, class_sums, live_intervals
from tracelake.pipelines.functions.stats import nearest_rank
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters
from tracelake.schemas.steps import INFERRED_STEP

_DEVICE = ("compute_ns", "exposed_comm_ns", "memcpy_ns", "memset_ns")
_STEP = [*SOURCE_KEY, "step_name", "step_occurrence"]


def step_ledger(
    sources: DataFrame,
    annotations: DataFrame,
    kernels: DataFrame,
    memops: DataFrame,
    launches: DataFrame,
    syncs: DataFrame,
    collectives: DataFrame,
    step_launches: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """Each instant of a step goes to the first live class; the classes and `other_ns` sum to duration_ns.

    Device work of the process's devices is clipped to the step. Steps that a cut capture does not reach, and steps
    with launches but no device events, have no classes.
    """
    steps = closed_steps(annotations, sources)
    sent = sends(collectives, kernels).select(place(*SOURCE_KEY), F.lit(SENDS).alias("label"), "start_ns", "end_ns")
    live = live_intervals(annotations, kernels, memops, launches, syncs, parameters).unionByName(sent)
    marks = steps.select(place(*SOURCE_KEY), "start_ns", "end_ns", F.col("annotation_id").alias("value"))
    sums = class_sums(live, marks, sources).withColumnRenamed("value", "annotation_id")
    named = steps.withColumnsRenamed({"name": "step_name", "index": "step_index"}).withColumn(PLACE, place(*SOURCE_KEY))
    launched = step_launches.drop("attempt", "metric_version")
    facts = named.join(sums, [PLACE, "annotation_id"], "left").join(launched, _STEP, "left")
    return _numbered(_judged(facts), sources, annotations).withColumn("metric_version", F.lit(METRIC_VERSION)).select(
        "job_id", "attempt", "source_id", "node_id", "rank", "step_name", "step_index", "step_occurrence", "start_ns",
        "duration_ns", *CLASSES.values(), "other_ns", "exposed_p2p_ns", "gpu_time_ns", "launch_count", "status",
        "reason", "is_inferred", "metric_version",
    )  # fmt: skip


def _judged(facts: DataFrame) -> DataFrame:
    uncovered = F.coalesce("is_uncovered", F.lit(False))
    status = F.when(F.col("is_cut"), F.lit("cut")).when(uncovered, F.lit("uncovered")).otherwise(F.lit("complete"))
    reason = F.when(F.col("is_cut"), F.lit("capture_cut")).otherwise(
        F.coalesce(F.when(uncovered, F.lit("uncovered")), "gpu_reason")
    )
    # Without any device event in the window, what the host did is known and what a device did is not.
    no_device = F.coalesce(F.col("gpu_reason") == "no_gpu_activity_captured", F.lit(False))
    known = reason.isNull() | (no_device & (status == "complete"))
    classes = {
        name: F.when(known & (~no_device if name in _DEVICE else F.lit(True)), F.coalesce(name, F.lit(0)))
        for name in CLASSES.values()
    }
    parts = [F.coalesce(part, F.lit(0)) for part in classes.values()]
    total: Column = F.when(known, reduce(lambda a, b: a + b, parts))
    gpu = F.when(F.col("gpu_reason").isNull() & ~uncovered, F.coalesce("gpu_time_ns", F.lit(0)))
    count = F.coalesce("launch_count", F.lit(0))
    return facts.withColumns(
        {
            "status": status,
            "reason": reason,
            **classes,
            "other_ns": F.col("duration_ns") - total,
            "exposed_p2p_ns": F.when(classes["exposed_comm_ns"].isNotNull(), F.col("exposed_p2p_ns")),
            "gpu_time_ns": gpu,
            "launch_count": count,
        }
    )


def _numbered(steps: DataFrame, sources: DataFrame, annotations: DataFrame) -> DataFrame:
    """Occurrences count on over the windows of one process: each adds the steps of the attempt's earlier ones.

    Markers come on all ranks at once. Inferred steps begin where a rank's recording does: one that began some steps
    later than the first begins with a later number.
    """
    process = ["job_id", "attempt", "step_name", "process"]
    who = F.coalesce(F.concat(F.lit("rank "), F.col("rank").cast("string")), F.concat_ws(" ", "node_id", "process_id"))
    windows = sources.select(*SOURCE_KEY, who.alias("process"))
    owned = steps.join(F.broadcast(windows), SOURCE_KEY)
    numbered = annotations.filter("is_step").withColumnRenamed("name", "step_name")
    all_steps = numbered.groupBy(*SOURCE_KEY, "step_name").agg(
        F.count("*").alias("steps"), F.min("start_ns").alias("first_ns"),
        nearest_rank("duration_ns", 0.5).alias("usual_ns"),
    )  # fmt: skip
    bounds = sources.select(*SOURCE_KEY, "attempt", who.alias("process"), "window_start_ns", "window_end_ns")
    counts = all_steps.join(F.broadcast(bounds), SOURCE_KEY)
    in_time = Window.partitionBy(*process).orderBy("window_start_ns", "source_id")
    before = in_time.rowsBetween(Window.unboundedPreceding, -1)
    counts = _aligned(counts.withColumn("window_number", F.row_number().over(in_time)))
    # Windows that overlap are not one process's past: each then counts from 0.
    overlaps = F.max("window_end_ns").over(before) > F.col("window_start_ns")
    offset = F.when(F.coalesce(overlaps, F.lit(False)), 0).otherwise(F.coalesce(F.sum("steps").over(before), F.lit(0)))
    offsets = counts.select(*process, "source_id", (offset + F.col("late")).alias("offset"))
    joined = owned.join(F.broadcast(offsets), [*process, "source_id"])
    return joined.withColumn("step_occurrence", F.col("step_occurrence") + F.col("offset"))


def _aligned(counts: DataFrame) -> DataFrame:
    """`late`: steps that a window's inferred ones begin after the first rank's; `steps`: how far any rank gets."""
    together = Window.partitionBy("job_id", "attempt", "step_name", "window_number")
    behind = (F.col("first_ns") - F.min("first_ns").over(together)) / F.nullif("usual_ns", F.lit(0))
    is_inferred = F.col("step_name") == INFERRED_STEP
    late = F.when(is_inferred, F.coalesce(F.round(behind).cast("bigint"), F.lit(0))).otherwise(0)
    reached = F.max(F.col("late") + F.col("steps")).over(together)
    return counts.withColumn("late", late).withColumn("steps", F.when(is_inferred, reached).otherwise(F.col("steps")))
