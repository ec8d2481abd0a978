"""Windows without step markers: the period of their launches, and the steps that follow from it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions import periods
from tracelake.pipelines.functions.links import linked
from tracelake.pipelines.functions.local import local_frame
from tracelake.pipelines.functions.names import names_step
from tracelake.pipelines.functions.periods import GRAM, SEQUENCE, in_order
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, one_per_window, place
from tracelake.pipelines.normalized.kernel_rules import classify
from tracelake.pipelines.parameters import DEFAULT, Parameters
from tracelake.schemas.normalized.step_periods import TABLE
from tracelake.schemas.render.spark import ddl

_PROCESS, _THREAD = 1, 0
_LANDMARKS = ("communication", "optimizer")
"""Classes of kernels by which steps are told apart, from the weaker on."""


def step_periods(
    source: DataFrame, annotation: DataFrame, launch: DataFrame, kernel: DataFrame, parameters: Parameters = DEFAULT
) -> DataFrame:
    """One row per window that has no marked step, with its inferred steps or the reason for none.

    Looked at are the launches that started a kernel: those of the process in time order, and where its threads run
    side by side in no fixed order, those of the thread with most of them.
    """
    windows = _unmarked(source, annotation, parameters)
    # Most often there are none. Planning what follows takes seconds, asking for a few rows does not.
    if windows.isEmpty():
        return local_frame(windows.sparkSession, ddl(TABLE), [])
    launches = _in_scopes(_sequence(windows, launch, kernel))
    counts = launches.groupBy(*SEQUENCE).agg(F.count(F.lit(1)).alias("launch_count"))
    grams = periods.with_grams(launches)
    found = periods.anchors(grams, counts, parameters.inferred_step_min_count)
    steps = periods.steps(launches, periods.cuts(grams, found, counts))
    facts = counts.join(found.drop("gram", "offset"), SEQUENCE, "left").join(steps, SEQUENCE, "left")
    return _judged(windows.join(_chosen(facts, parameters), PLACE, "left"), parameters)


def _unmarked(source: DataFrame, annotation: DataFrame, parameters: Parameters) -> DataFrame:
    """(where, place) of windows without a marked step."""
    marked = annotation.filter(names_step(parameters)).select(*SOURCE_KEY).distinct()
    windows = one_per_window(source).select("day", *SOURCE_KEY, "attempt", "node_id", "rank")
    return windows.join(F.broadcast(marked), SOURCE_KEY, "left_anti").withColumn(PLACE, place(*SOURCE_KEY))


def _sequence(windows: DataFrame, launch: DataFrame, kernel: DataFrame) -> DataFrame:
    """(place, launch_id, start_ns, end_ns, thread_id, kernel, landmark): a graph launch counts by its first kernel."""
    wanted = F.broadcast(windows.select(PLACE))
    calls = launch.select(
        place(*SOURCE_KEY), F.col("event_id").alias("launch_id"), "correlation_id", "thread_id", "start_ns",
        (F.col("start_ns") + F.col("duration_ns")).alias("end_ns"),
    ).join(wanted, PLACE, "left_semi")  # fmt: skip
    kernels = kernel.select(place(*SOURCE_KEY), "event_id", "correlation_id", "start_ns", "name")
    ran = kernels.join(wanted, PLACE, "left_semi")
    hashed = ran.select(PLACE, "event_id", "correlation_id", "start_ns", F.xxhash64("name").alias("kernel"))
    owned = linked(hashed, calls, [PLACE], ("launch_id", "start_ns", "end_ns", "thread_id"))
    first = owned.filter("is_first_of_launch AND launch IS NOT NULL").select(PLACE, "kernel", "launch.*")
    landmark = F.coalesce(F.array_position(F.array(*map(F.lit, _LANDMARKS)), F.col("kernel_class")), F.lit(0))
    names = classify(ran.select("name").distinct()).select(
        F.xxhash64("name").alias("kernel"), landmark.cast("int").alias("landmark")
    )
    return first.join(F.broadcast(names), "kernel")


def _in_scopes(launches: DataFrame) -> DataFrame:
    """Launches with `scope` and n: each in the process's sequence, those of the busiest of several threads apart."""
    threads = launches.groupBy(PLACE, "thread_id").agg(F.count(F.lit(1)).alias("count"))
    busiest = threads.groupBy(PLACE).agg(
        F.max_by("thread_id", F.struct("count", -F.col("thread_id"))).alias("busiest"),
        (F.count(F.lit(1)) > 1).alias("is_one_of_several"),
    )
    own = F.col("is_one_of_several") & F.col("thread_id").eqNullSafe(F.col("busiest"))
    scopes = F.when(own, F.array(F.lit(_PROCESS), F.lit(_THREAD))).otherwise(F.array(F.lit(_PROCESS)))
    scoped = launches.join(F.broadcast(busiest), PLACE).withColumn("scope", F.explode(scopes))
    return scoped.drop("busiest", "is_one_of_several").withColumn("n", F.row_number().over(in_order()).cast("bigint"))


def _chosen(facts: DataFrame, parameters: Parameters) -> DataFrame:
    """Per window the sequence that has steps, the process's before the thread's; without any the process's."""
    covered = F.col("usual_launches") / F.col("launch_count")
    has_steps = (
        (F.col("usual_count") >= parameters.inferred_step_min_count)
        & (covered >= parameters.inferred_step_covered_min_ratio)
        & (F.col("agreement_ratio") >= parameters.inferred_step_agreement_min_ratio)
    )
    rated = facts.withColumns({"covered_ratio": covered, "has_steps": F.coalesce(has_steps, F.lit(False))})
    row = F.struct(*[name for name in rated.columns if name not in SEQUENCE])
    best = rated.groupBy(PLACE).agg(F.max_by(row, F.struct("has_steps", "scope")).alias("row"))
    return best.select(PLACE, "row.*")


def _judged(windows: DataFrame, parameters: Parameters) -> DataFrame:
    has, launches = F.coalesce("has_steps", F.lit(False)), F.coalesce("launch_count", F.lit(0))
    reason = (
        F.when(launches == 0, F.lit("no_launches"))
        .when(launches < GRAM * parameters.inferred_step_min_count, F.lit("too_few_launches"))
        .otherwise(F.lit("no_period"))
    )
    return windows.select(
        "day", *SOURCE_KEY, "attempt", "node_id", "rank", F.when(has, F.col("thread_id")).alias("thread_id"),
        launches.alias("launch_count"), F.col("period").alias("period_launch_count"), "covered_ratio",
        "agreement_ratio", F.when(has, F.col("step_count")).otherwise(0).alias("step_count"),
        F.when(has, F.col("starts_ns")).otherwise(F.array().cast("array<bigint>")).alias("starts_ns"),
        F.when(has, F.col("end_ns")).alias("end_ns"), F.when(~has, reason).alias("reason"),
    )  # fmt: skip
