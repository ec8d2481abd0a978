"""Of a step that took too long: what grew, and on which rank."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.stats import nearest_rank
from tracelake.pipelines.functions.where import SOURCE_KEY

STEP = ["job_id", "attempt", "step_name", "step_occurrence"]
STRETCH = ["job_id", "attempt", "step_name", "step_group", "stretch"]
COMM = "exposed_comm"
OWN = ("compute", "memcpy", "memset", "runtime", "data_loading", "host_work", "other")
"""Classes of the step ledger that a rank spends on its own; in the other it waits for others too."""


def blamed(
    slow: DataFrame, step_times: DataFrame, step_ledger: DataFrame, rank_steps: DataFrame, share: float
) -> DataFrame:
    """Per slow step (`STEP`, excess_ns): where to look, and what grew there.

    source_id, rank, node_id: the rank with the most own work above its usual, where that is at least `share` of the
    excess; else the slowest, which waited or was held by communication. `part`: the class that grew most there, with
    its value and its usual one (the median of the stretch). `has_own`; guilty_rank and guilty_node_id, where one rank,
    or the ranks of one node among several, have the excess; rank_count.
    """
    placed = _placed(slow, step_times, step_ledger, rank_steps)
    names = [*[f"{name}_ns" for name in (*OWN, COMM)], "own_ns"]
    usual = placed.filter("kind <> 'warm_up'").groupBy(*STRETCH, "member").agg(
        *[nearest_rank(name, 0.5).alias(f"usual_{name}") for name in names]
    )  # fmt: skip
    ranks = placed.join(F.broadcast(slow.select(*STEP, "excess_ns")), STEP).join(usual, [*STRETCH, "member"])
    parts = {name: _part(name) for name in (*OWN, COMM)}
    told = ranks.select(
        *STEP, "excess_ns", "source_id", "rank", "node_id", "duration_ns",
        (F.col("own_ns") - F.col("usual_own_ns")).alias("own_excess_ns"),
        _largest([parts[name] for name in OWN]).alias("own_part"), _largest([*parts.values()]).alias("any_part"),
    )  # fmt: skip
    return _found(told, share)


def _placed(slow: DataFrame, step_times: DataFrame, step_ledger: DataFrame, rank_steps: DataFrame) -> DataFrame:
    """Steps of every rank in the stretches that hold a slow one, with own_ns."""
    stretches = F.broadcast(slow.select(*STRETCH).distinct())
    times = step_times.filter("kind <> 'withheld'").select(*STEP, "step_group", "stretch", "kind")
    own = rank_steps.select(*SOURCE_KEY, "step_name", "step_occurrence", "own_work_ns")
    return (
        step_ledger.filter("status = 'complete' AND reason IS NULL")
        .join(times.join(stretches, STRETCH, "left_semi"), STEP)
        .join(own, [*SOURCE_KEY, "step_name", "step_occurrence"], "left")
        .withColumn("own_ns", F.coalesce("own_work_ns", F.col("duration_ns") - F.col("exposed_comm_ns")))
        .withColumn("member", F.coalesce(F.col("rank").cast("string"), F.col("source_id")))
    )


def _part(name: str) -> Column:
    value, usual = F.col(f"{name}_ns"), F.col(f"usual_{name}_ns")
    return F.struct(
        (value - usual).alias("excess_ns"), F.lit(name).alias("name"), value.alias("value_ns"), usual.alias("usual_ns")
    )


def _largest(parts: list[Column]) -> Column:
    return F.array_max(F.filter(F.array(*parts), lambda part: part["excess_ns"].isNotNull()))


def _found(ranks: DataFrame, share: float) -> DataFrame:
    who = [F.col(name) for name in ("source_id", "rank", "node_id")]
    order = F.struct("own_excess_ns", "source_id")
    steps = ranks.groupBy(*STEP).agg(
        F.max_by(F.struct(*who, F.col("own_part").alias("part")), order).alias("worst"),
        F.max_by(F.struct(*who, F.col("any_part").alias("part")), F.struct("duration_ns", "source_id")).alias("last"),
        F.max("own_excess_ns").alias("most_ns"),
        F.max("excess_ns").alias("excess_ns"),
        F.collect_list(F.struct("rank", "node_id", "own_excess_ns")).alias("ranks"),
        F.countDistinct("node_id").alias("node_count"),
        F.count(F.lit(1)).alias("rank_count"),
    )
    has_own = F.col("most_ns") >= F.col("excess_ns") * share
    # Ranks with at least half of the most are in it together.
    guilty = F.filter("ranks", lambda each: each["own_excess_ns"] * 2 >= F.col("most_ns"))
    nodes = F.array_distinct(F.transform("guilty", lambda each: each["node_id"]))
    is_one = F.size("guilty") == 1
    is_node = is_one | ((F.size("nodes") == 1) & (F.col("node_count") > 1))
    return (
        steps.withColumns({"has_own": has_own, "guilty": guilty})
        .withColumn("nodes", nodes)
        .withColumn("at", F.when(F.col("has_own"), F.col("worst")).otherwise(F.col("last")))
        .select(
            *STEP, "at.*", "has_own", "rank_count",
            F.when(F.col("has_own") & is_one, F.element_at("guilty", 1)["rank"]).alias("guilty_rank"),
            F.when(F.col("has_own") & is_node, F.element_at("nodes", 1)).alias("guilty_node_id"),
            F.col("last.source_id").alias("last_source_id"), F.col("last.rank").alias("last_rank"),
        )
    )  # fmt: skip


def least_waiting(slow: DataFrame, collective_waits: DataFrame, share: float) -> DataFrame:
    """Per slow step (`STEP`, excess_ns): late_rank and late_node_id, who waited least in its collectives, where the
    median rank waited longer by at least `share` of the excess; `waits_ns`, by how much.
    """
    known = collective_waits.filter("is_reliable AND rank IS NOT NULL")
    waits = known.join(F.broadcast(slow.select(*STEP, "excess_ns")), STEP)
    ranks = waits.groupBy(*STEP, "excess_ns", "rank", "node_id").agg(F.sum("wait_ns").alias("wait_ns"))
    steps = ranks.groupBy(*STEP, "excess_ns").agg(
        F.min_by(F.struct("rank", "node_id"), F.struct("wait_ns", "rank")).alias("late"),
        # A little above the half: the median of the others.
        (nearest_rank("wait_ns", 0.501) - F.min("wait_ns")).alias("waits_ns"),
    )
    return steps.filter(F.col("waits_ns") >= F.col("excess_ns") * share).select(
        *STEP, F.col("late.rank").alias("late_rank"), F.col("late.node_id").alias("late_node_id"), "waits_ns"
    )
