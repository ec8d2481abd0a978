"""Steps that took much longer or shorter than usual."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.blame import COMM, STEP, blamed, least_waiting
from tracelake.pipelines.functions.evidence import (
    annotation_evidence,
    idle_evidence,
    kernel_evidence,
    reference,
    said,
    throttle_evidence,
)
from tracelake.pipelines.functions.steps import numbered_steps
from tracelake.pipelines.functions.where import SOURCE_KEY
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

# Class of the step ledger -> causes of idle time that may tell more of it.
_FINER = {
    "runtime": ("synchronize", "copy"),
    "host_work": ("checkpoint", "compile", "communication_host", "copy"),
    "data_loading": ("data_loading",),
    "other": ("python_or_other",),
}


def outlier_steps(
    annotations: DataFrame,
    kernels: DataFrame,
    kernel_stats: DataFrame,
    step_times: DataFrame,
    step_ledger: DataFrame,
    rank_steps: DataFrame,
    collective_waits: DataFrame,
    idle_causes: DataFrame,
    step_samples: DataFrame,
    device_samples: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """One row per slow, fast and warm-up step; cause, guilty rank and evidence of the slow ones.

    The cause is sought on the rank whose own work grew by half of the excess, else on the slowest one: the class of
    the step ledger that grew most there, if it covers half of the excess. Idle time by cause, samples and waits in
    collectives tell more of some classes.
    """
    unusual = step_times.filter("kind IN ('slow', 'fast', 'warm_up')").withColumn(
        "excess_ns", F.col("duration_ns") - F.col("median_ns")
    )
    slow = unusual.filter("kind = 'slow'")
    share = parameters.outlier_cause_min_ratio
    found = blamed(slow, step_times, step_ledger, rank_steps, share)
    late = least_waiting(slow, collective_waits, share)
    seen = _seen(found, slow, late, annotations, step_ledger)
    for facts in (
        idle_evidence(seen, idle_causes, step_ledger),
        throttle_evidence(seen, step_samples, device_samples, parameters),
    ):
        seen = seen.join(facts, STEP, "left")
    named = _named(seen, share)
    for facts in (
        kernel_evidence(named.withColumn("is_comm", F.col("part.name") == COMM), kernels, kernel_stats),
        annotation_evidence(named, annotations, parameters),
    ):
        named = named.join(facts, STEP, "left")
    return _told(unusual, named, step_times)


def _seen(
    found: DataFrame, slow: DataFrame, late: DataFrame, annotations: DataFrame, step_ledger: DataFrame
) -> DataFrame:
    """What is to be explained: the part that grew, where, when, and under which number events know the step."""
    numbers = numbered_steps(annotations, step_ledger)
    times = step_ledger.select(
        *STEP, "source_id", "start_ns", (F.col("start_ns") + F.col("duration_ns")).alias("end_ns")
    )
    return (
        found.join(slow.select(*STEP, "excess_ns"), STEP)
        .join(late, STEP, "left")
        .join(times, [*STEP, "source_id"])
        .join(numbers, [*SOURCE_KEY, "step_name", "step_occurrence"])
    )


def _named(seen: DataFrame, share: float) -> DataFrame:
    """The cause: `part` under the name that the evidence allows, or mixed."""
    name, grown = F.col("part.name"), F.col("part.excess_ns")
    # One finer cause of idle time holds at least half of what its class grew by.
    finer = F.coalesce(*[F.when(name == class_, _most(causes)) for class_, causes in _FINER.items()])
    held = seen.withColumn("finer", finer).withColumn(
        "finer", F.when(F.col("finer.excess_ns") >= grown * share, F.col("finer"))
    )
    covers = F.col("covers") >= share
    is_late = ~F.col("has_own") & (name == COMM) & F.col("late_rank").isNotNull()
    cause = (
        F.when(~covers, F.lit("mixed"))
        .when(is_late, F.lit("waiting_for_rank"))
        .when((name == "compute") & F.col("throttle_text").isNotNull(), F.lit("throttled"))
        .when(name == "other", F.lit("python_or_other"))
        .otherwise(F.coalesce("finer.cause", name))
    )
    ratio = F.least(F.greatest(grown / F.col("excess_ns"), F.lit(0.0)), F.lit(1.0))
    return held.withColumns({"covers": ratio, "is_late": is_late}).withColumns(
        {
            "cause": cause,
            "guilty_rank": F.when(F.col("is_late"), F.col("late_rank")).otherwise(F.col("guilty_rank")),
            "guilty_node_id": F.when(F.col("is_late"), F.col("late_node_id")).otherwise(F.col("guilty_node_id")),
        }
    )


def _most(causes: tuple[str, ...]) -> Column:
    """Of the idle time of these causes, that which grew most."""
    return F.array_max(F.filter("idle", lambda each: each["cause"].isin(*causes)))


def _evidence() -> Column:
    """References in the order in which a reader would look them up."""
    grew = F.concat("part.name", said("_ns", F.col("part.value_ns"), F.col("part.usual_ns")))
    ledger = reference("aggregates.step_ledger", grew, *SOURCE_KEY, "step_name", "step_occurrence")
    waits = F.concat(
        F.lit("wait_ns of the others "), F.col("waits_ns").cast("string"), F.lit(" longer than of rank "),
        F.col("late_rank").cast("string"),
    )  # fmt: skip
    waited = reference("aggregates.collective_waits", waits, "job_id", "step_name", "step_occurrence")
    held = F.concat(F.lit("the slowest, waiting for rank "), F.col("guilty_rank").cast("string"))
    last = reference(
        "aggregates.step_ledger", held, "job_id", "step_name", "step_occurrence", source_id=F.col("last_source_id")
    )
    on_device = F.col("part.name").isin("compute", COMM)
    return F.array_compact(
        F.array(
            ledger,
            F.when(F.col("has_own") & (F.col("last_rank") != F.col("guilty_rank")), last),
            F.when(F.col("is_late"), waited),
            F.when(on_device, F.col("kernel_text")),
            F.col("finer.said"),
            F.when(F.col("cause") == "throttled", F.col("throttle_text")),
            F.col("annotation_text"),
        )
    )


def _told(unusual: DataFrame, named: DataFrame, step_times: DataFrame) -> DataFrame:
    ranks = step_times.groupBy("job_id", "attempt").agg(F.max("rank_count").alias("most_ranks"))
    shown = named.select(
        *STEP, "cause", F.col("part.excess_ns").alias("cause_excess_ns"), F.col("covers").alias("cause_ratio"),
        "guilty_rank", "guilty_node_id", _evidence().alias("evidence"),
    )  # fmt: skip
    rows = unusual.join(shown, STEP, "left").join(ranks, ["job_id", "attempt"])
    return rows.select(
        *STEP[:3], "step_index", "step_occurrence", "start_ns", "duration_ns", "median_ns", "score", "kind",
        "step_group", "excess_ns", "cause", "cause_excess_ns", "cause_ratio", "guilty_rank", "guilty_node_id",
        "rank_count", (F.col("cause_ratio") * F.col("rank_count") / F.col("most_ranks")).alias("confidence"),
        F.coalesce("evidence", F.array().cast("array<string>")).alias("evidence"),
        F.lit(METRIC_VERSION).alias("metric_version"),
    )  # fmt: skip
