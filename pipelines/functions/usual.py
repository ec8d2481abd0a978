"""What the usual steps of a job spend their time on, whatever single steps or ranks do otherwise."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.blame import STEP
from tracelake.pipelines.functions.stats import nearest_rank
from tracelake.pipelines.functions.steps import numbered_steps, of_main_step
from tracelake.pipelines.functions.where import ATTEMPT_KEY, SOURCE_KEY
from tracelake.pipelines.parameters import Parameters

CLASSES = ("exposed_comm", "memcpy")
"""Classes of the step ledger that are told of, beside causes of idle time."""
_TOLD = ("data_loading", "synchronize", "compile", "communication_host", "launch_latency", "python_or_other")


def usual_steps(step_times: DataFrame, parameters: Parameters) -> DataFrame:
    """The usual training steps of the name with most time in its attempt, as (`STEP`, duration_ns, rank_count).

    A profiler often records a handful, too few to judge: of those, the ones near their median, if they are enough.
    """
    training = step_times.filter("step_group = 'training'")
    few = training.filter("reason = 'too_few_steps'")
    all_of_name = Window.partitionBy(*ATTEMPT_KEY, "step_name")
    away = F.abs(F.col("duration_ns") - F.col("middle_ns"))
    near = (
        few.join(few.groupBy(*ATTEMPT_KEY, "step_name").agg(nearest_rank("duration_ns", 0.5).alias("middle_ns")),
                 [*ATTEMPT_KEY, "step_name"])
        .filter(away <= F.col("middle_ns") * parameters.warm_up_within_ratio)
        .withColumn("near_count", F.count(F.lit(1)).over(all_of_name))
        .filter(F.col("near_count") >= parameters.usual_step_min_count)
    )  # fmt: skip
    usual = training.filter("kind = 'usual'").unionByName(near.select(*training.columns))
    return of_main_step(usual).select(*STEP, "duration_ns", "rank_count")


def spent(usual: DataFrame, step_ledger: DataFrame, idle_causes: DataFrame, annotations: DataFrame) -> DataFrame:
    """Per attempt and cause, over its usual steps: step_name, step_count, first and last step, steps_ns (their time),
    spent_ns (what a rank spends on the cause, as the lower median over ranks has it) and spent_sum_ns (all ranks).

    Exposed communication is that of the rank with least: what the others have over that is waiting. Sends and receives
    are in none of it.
    """
    each = _classes(usual, step_ledger).unionByName(_causes(usual, step_ledger, idle_causes, annotations))
    sums = each.groupBy(*ATTEMPT_KEY, "step_name", "cause").agg(
        F.sum("spent_ns").alias("spent_ns"), F.sum(F.col("spent_ns") * F.col("rank_count")).alias("spent_sum_ns")
    )
    whole = usual.groupBy(*ATTEMPT_KEY, "step_name").agg(
        F.count("*").alias("step_count"),
        F.min("step_occurrence").alias("first_step_occurrence"),
        F.max("step_occurrence").alias("last_step_occurrence"),
        F.sum("duration_ns").alias("steps_ns"),
    )
    return sums.join(whole, [*ATTEMPT_KEY, "step_name"])


def _classes(usual: DataFrame, step_ledger: DataFrame) -> DataFrame:
    known = step_ledger.filter("status = 'complete' AND compute_ns IS NOT NULL").drop("duration_ns")
    steps = usual.join(known, STEP).groupBy(*STEP, "rank_count")
    parts = steps.agg(
        # Sends and receives between the stages of a pipeline are told of by themselves.
        F.min(F.col("exposed_comm_ns") - F.coalesce("exposed_p2p_ns", F.lit(0))).alias("exposed_comm"),
        _lower_median(F.collect_list("memcpy_ns"), "rank_count").alias("memcpy"),
    )
    return parts.unpivot([*STEP, "rank_count"], [*CLASSES], "cause", "spent_ns")


def _causes(usual: DataFrame, step_ledger: DataFrame, idle_causes: DataFrame, annotations: DataFrame) -> DataFrame:
    """Idle time of a rank is the mean over its devices; a rank without a row for a cause has none of it."""
    own = idle_causes.filter("scope = 'step'").filter(F.col("cause").isin(*_TOLD))
    devices = F.size(F.collect_set("device_id").over(Window.partitionBy(*SOURCE_KEY)))
    mean = F.call_function("div", F.col("idle_ns"), devices.cast("bigint"))
    by_rank = (
        own.withColumn("idle_ns", mean)
        .groupBy(*SOURCE_KEY, "attempt", "step_name", F.col("step_occurrence").alias("own_occurrence"), "cause")
        .agg(F.sum("idle_ns").alias("idle_ns"))
    )
    numbers = numbered_steps(annotations, step_ledger)
    numbered = by_rank.join(numbers, [*SOURCE_KEY, "step_name", "own_occurrence"]).join(usual, STEP)
    return numbered.groupBy(*STEP, "rank_count", "cause").agg(
        _lower_median(F.collect_list("idle_ns"), "rank_count").alias("spent_ns")
    )


def sent(usual: DataFrame, step_ledger: DataFrame) -> DataFrame:
    """Per process that sends or receives, over the usual steps: rank, step_name, step_count, first and last step,
    steps_ns (their time on it) and spent_ns (exposed sends and receives in it)."""
    known = step_ledger.filter("status = 'complete' AND compute_ns IS NOT NULL")
    who = F.coalesce(F.concat(F.lit("rank "), F.col("rank").cast("string")), "source_id")
    sums = (
        usual.select(*STEP)
        .join(known, STEP)
        .groupBy(*ATTEMPT_KEY, "step_name", who.alias("who"))
        .agg(
            F.min("rank").alias("rank"),
            F.count("*").alias("step_count"),
            F.min("step_occurrence").alias("first_step_occurrence"),
            F.max("step_occurrence").alias("last_step_occurrence"),
            F.sum("duration_ns").alias("steps_ns"),
            F.sum("exposed_p2p_ns").alias("spent_ns"),
        )
    )
    return sums.filter("spent_ns IS NOT NULL AND steps_ns > 0")


def _lower_median(values: Column, among: str) -> Column:
    """Lower median of so many values, of which those that are missing are 0 and none is negative."""
    place = F.call_function("div", F.col(among) - 1, F.lit(2)) - (F.col(among) - F.size(values))
    ordered = F.sort_array(values)
    return F.when(place < 0, F.lit(0)).otherwise(F.get(ordered, place.cast("int")))
