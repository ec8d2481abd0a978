"""How long a job's steps would take if something were otherwise."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.steps import of_main_step
from tracelake.pipelines.functions.where import ATTEMPT_KEY
from tracelake.pipelines.parameters import METRIC_VERSION

_STEP = [*ATTEMPT_KEY, "step_name", "step_occurrence"]
_BARRIER = "A step ends when the rank with most own work is done"
_ASSUMPTIONS = {
    "rank_as_peers": f"{_BARRIER}; the rank does no more than the median of the ranks in that step.",
    "node_as_peers": f"{_BARRIER}; each rank of the node does no more than the median of the ranks in that step.",
    "all_ranks_as_peers": f"{_BARRIER}; no rank does more than the median of the ranks in that step.",
    "communication_hidden": f"{_BARRIER}; all communication runs under compute and slows it down by nothing.",
    "data_loading_free": f"{_BARRIER}; each batch is there when a rank asks for it.",
}


def what_if(step_ledger: DataFrame, rank_steps: DataFrame, stragglers: DataFrame) -> DataFrame:
    """One row per attempt and scenario, and per slow rank or node.

    A step has one barrier: it lasts as long as the most own work of any rank, and what communication takes beside.
    What the most own work loses in a scenario, the step loses.
    """
    work = _work(step_ledger, rank_steps)
    ranks = stragglers.select(*ATTEMPT_KEY, F.col("rank").cast("string").alias("subject"))
    nodes = stragglers.filter("verdict = 'node'").select(*ATTEMPT_KEY, F.col("node_id").alias("subject")).distinct()
    told = (
        _everywhere(work),
        _one_otherwise(work, F.col("rank").cast("string"), ranks, "rank_as_peers"),
        _one_otherwise(work, F.col("node_id"), nodes, "node_as_peers"),
    )
    saved = F.least(F.greatest("saved_ns", F.lit(0)), "step_ns")
    key = [*ATTEMPT_KEY, "scenario", "subject", "step_name"]
    sums = reduce(DataFrame.unionByName, told).groupBy(*key).agg(
        F.count("*").alias("step_count"), F.sum("step_ns").alias("baseline_ns"),
        F.sum(F.col("step_ns") - saved).alias("predicted_ns"),
    )  # fmt: skip
    assumptions = F.create_map(*[F.lit(text) for pair in _ASSUMPTIONS.items() for text in pair])
    saved_ratio = (F.col("baseline_ns") - F.col("predicted_ns")) / F.col("baseline_ns")
    return sums.withColumns(
        {
            "saved_ratio": F.when(F.col("baseline_ns") > 0, saved_ratio),
            "assumption": assumptions[F.col("scenario")],
            "metric_version": F.lit(METRIC_VERSION),
        }
    )


def _work(step_ledger: DataFrame, rank_steps: DataFrame) -> DataFrame:
    """Own work in the steps of the name with most time, of ranks that are compared or of a process that is alone."""
    known = rank_steps.filter("own_work_ns IS NOT NULL")
    alone = F.count("*").over(Window.partitionBy(*_STEP)) == 1
    kept = known.withColumn("is_alone", alone).filter("reason IS NULL OR is_alone")
    loading = step_ledger.select(*_STEP, "source_id", F.coalesce("data_loading_ns", F.lit(0)).alias("loading_ns"))
    own = of_main_step(kept).select(*_STEP, "source_id", "node_id", "rank", "duration_ns", "own_work_ns",
                      F.coalesce("peer_own_work_ns", "own_work_ns").alias("peer_ns"))  # fmt: skip
    return own.join(loading, [*_STEP, "source_id"])


def _everywhere(work: DataFrame) -> DataFrame:
    """Per step: what each scenario saves that is about all ranks."""
    most = F.max("own_work_ns")
    saved = {
        "all_ranks_as_peers": most - F.max(F.least("own_work_ns", "peer_ns")),
        "communication_hidden": F.max("duration_ns") - most,
        "data_loading_free": most - F.max(F.col("own_work_ns") - F.col("loading_ns")),
    }
    steps = work.groupBy(*_STEP).agg(
        F.max("duration_ns").alias("step_ns"), *[column.alias(name) for name, column in saved.items()]
    )
    rows = F.explode(F.array(*[F.struct(F.lit(n).alias("scenario"), F.col(n).alias("saved_ns")) for n in saved]))
    return steps.select(*_STEP, "step_ns", F.lit("*").alias("subject"), rows.alias("row")).select(
        *_STEP, "step_ns", "subject", "row.scenario", "row.saved_ns"
    )


def _one_otherwise(work: DataFrame, subject: Column, subjects: DataFrame, scenario: str) -> DataFrame:
    """Per step and subject: what is saved if that one did as its peers. Only who does most saves anything: down to the
    next."""
    groups = (
        work.filter(subject.isNotNull())
        .groupBy(*_STEP, subject.alias("who"))
        .agg(
            F.max("own_work_ns").alias("own"), F.max("duration_ns").alias("step_ns"), F.max("peer_ns").alias("peer_ns")
        )
    )
    ordered = F.sort_array(F.collect_list(F.struct("own", "who")), asc=False)
    steps = groups.groupBy(*_STEP).agg(
        F.max("step_ns").alias("step_ns"), F.max("peer_ns").alias("peer_ns"), F.slice(ordered, 1, 2).alias("top")
    )
    first, second = F.get("top", F.lit(0)), F.get("top", F.lit(1))
    left = F.greatest(F.coalesce(second["own"], "peer_ns"), "peer_ns")
    saved = F.when(first["who"] == F.col("subject"), first["own"] - left).otherwise(0)
    return steps.join(F.broadcast(subjects), ATTEMPT_KEY).select(
        *_STEP, "step_ns", "subject", F.lit(scenario).alias("scenario"), saved.alias("saved_ns")
    )
