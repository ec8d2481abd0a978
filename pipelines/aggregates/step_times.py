"""How long each step took on its slowest rank, and whether that is usual."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.host import matches
from tracelake.pipelines.functions.intervals import open_then
from tracelake.pipelines.functions.stats import nearest_rank
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_NAME = ["job_id", "attempt", "step_name"]
_STEP = [*_NAME, "step_occurrence"]
_GROUP = [*_NAME, "step_group", "is_warm_up"]


def step_times(annotations: DataFrame, step_ledger: DataFrame, parameters: Parameters = DEFAULT) -> DataFrame:
    """One row per attempt and step. Cut steps, uncovered ones and those of withheld windows are left out.

    The leading steps until the first that is not far above the median of all are warm-up. The others are compared
    within their group with the nearest steps, so that a job that grows slower has no outliers; all at once where there
    are few.
    """
    known = step_ledger.filter("status = 'complete' AND reason IS NULL")
    steps = known.groupBy(*_STEP).agg(
        F.min("step_index").alias("step_index"),
        F.min("start_ns").alias("start_ns"),
        F.max("duration_ns").alias("duration_ns"),
        F.max_by("rank", F.struct("duration_ns", "source_id")).alias("slowest_rank"),
        F.count(F.lit(1)).alias("rank_count"),
    )
    grouped = steps.join(_groups(annotations, step_ledger, parameters), _STEP, "left")
    named = grouped.withColumn("step_group", F.coalesce("step_group", F.lit("training")))
    compared = _compared(_with_warm_up(named, parameters), parameters)
    return _judged(compared, parameters).withColumn("metric_version", F.lit(METRIC_VERSION)).select(
        *_NAME, "step_index", "step_occurrence", "start_ns", "duration_ns", "slowest_rank", "rank_count",
        "step_group", "stretch", "kind", "median_ns", "spread_ns", "score", "reason", "metric_version",
    )  # fmt: skip


def _groups(annotations: DataFrame, step_ledger: DataFrame, parameters: Parameters) -> DataFrame:
    """Steps in which some rank saves a checkpoint or evaluates."""
    labels = {"checkpoint": parameters.checkpoint_patterns, "evaluation": parameters.evaluation_patterns}
    label = F.coalesce(*[F.when(matches("name", each), F.lit(name)) for name, each in labels.items()])
    named = annotations.filter("side = 'host' AND NOT is_step").withColumn("label", label).filter("label IS NOT NULL")
    points = named.select(place(*SOURCE_KEY), "label", F.col("start_ns").alias("at_ns"))
    stretches = step_ledger.select(
        place(*SOURCE_KEY), F.struct(*_STEP).alias("value"), "start_ns",
        (F.col("start_ns") + F.col("duration_ns")).alias("end_ns"),
    )  # fmt: skip
    inside = open_then(points, stretches, [PLACE], "step").filter("step IS NOT NULL")
    # A step with both is one of a checkpoint.
    return inside.groupBy("step").agg(F.min("label").alias("step_group")).select("step.*", "step_group")


def _with_warm_up(steps: DataFrame, parameters: Parameters) -> DataFrame:
    median = steps.groupBy(*_NAME).agg(nearest_rank("duration_ns", 0.5).alias("overall_ns"))
    in_time = Window.partitionBy(*_NAME).orderBy("step_occurrence")
    number = F.row_number().over(in_time) - 1
    is_near = F.col("duration_ns") <= F.col("overall_ns") * (1 + parameters.warm_up_within_ratio)
    seen = F.max(is_near).over(in_time.rowsBetween(Window.unboundedPreceding, 0))
    return steps.join(median, _NAME).withColumn("is_warm_up", ~seen & (number < parameters.warm_up_max_count))


def _compared(steps: DataFrame, parameters: Parameters) -> DataFrame:
    """Steps with the median and spread of those that they are compared with, and `count`, the size of their group."""
    near, few = parameters.outlier_neighbour_count, parameters.outlier_local_min_count
    whole, in_time = Window.partitionBy(*_GROUP), Window.partitionBy(*_GROUP).orderBy("step_occurrence")
    placed = steps.withColumns(
        {
            "count": F.count(F.lit(1)).over(whole),
            "number": F.row_number().over(in_time) - 1,
            "around": F.collect_list("duration_ns").over(in_time.rowsBetween(-(few - 1), few - 1)),
        }
    )
    # The nearest, shifted at the edges; `around` begins `few - 1` steps before this one or with the first.
    first = F.greatest(F.lit(0), F.least(F.col("number") - near // 2, F.col("count") - near))
    begins = F.greatest(F.lit(0), F.col("number") - (few - 1))
    nearest = F.slice("around", (first - begins + 1).cast("int"), near)
    chosen = placed.withColumn("around", F.when(F.col("count") < few, F.col("around")).otherwise(nearest))
    away = F.transform("around", lambda x: F.abs(x - F.col("median_ns")))
    blocks = F.when(F.col("count") < few, 1).otherwise(F.call_function("div", "count", F.lit(near)))
    stretch = F.least(F.call_function("div", "number", F.lit(near)), blocks - 1).cast("bigint")
    return chosen.withColumn("median_ns", _median("around")).withColumns({"mad_ns": _median(away), "stretch": stretch})


def _median(values: str | Column) -> Column:
    """The lower median of an array: a value that occurs."""
    ordered = F.array_sort(values)
    return F.element_at(ordered, F.call_function("div", F.size(ordered) + 1, F.lit(2)).cast("int"))


def _judged(steps: DataFrame, parameters: Parameters) -> DataFrame:
    x, m = F.col("duration_ns"), F.col("median_ns")
    spread = F.greatest(1.4826 * F.col("mad_ns"), 0.01 * m, F.lit(1.0))
    too_few = F.col("count") < parameters.outlier_step_min_count
    is_judged = ~F.col("is_warm_up") & ~too_few
    score, ratio, least = F.col("score"), parameters.outlier_min_ratio, parameters.outlier_min_score
    kind = (
        F.when(F.col("is_warm_up"), F.lit("warm_up"))
        .when(too_few, F.lit("withheld"))
        .when((score > least) & (x > m * ratio), F.lit("slow"))
        .when((score < -least) & (x * ratio < m), F.lit("fast"))
        .otherwise(F.lit("usual"))
    )
    rated = steps.withColumns(
        {
            "spread_ns": F.when(is_judged, F.round(spread).cast("bigint")),
            "score": F.when(is_judged, (x - m) / spread),
            "stretch": F.when(is_judged, F.col("stretch")),
        }
    )
    shown = F.when(F.col("is_warm_up"), F.col("overall_ns")).when(~too_few, m)
    return rated.withColumns(
        {
            "kind": kind,
            "median_ns": shown,
            "reason": F.when(~F.col("is_warm_up") & too_few, F.lit("too_few_steps")),
        }
    )
