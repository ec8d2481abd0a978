"""Ranks that the others wait for in most steps."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import ATTEMPT_KEY
from tracelake.pipelines.parameters import METRIC_VERSION


def stragglers(rank_stats: DataFrame) -> DataFrame:
    """One row per slow rank. Where all of several ranks of a node are slow, the node is.

    Ranks that are slow together cost what the slowest of them costs: what two of them have in common counts half for
    each. The costs of an attempt so add up to what it lost.
    """
    node = Window.partitionBy(*ATTEMPT_KEY, "node_id")
    is_node = F.col("node_id").isNotNull() & (F.count("*").over(node) > 1) & F.min(F.col("is_slow")).over(node)
    verdict = F.when(F.coalesce(is_node, F.lit(False)), F.lit("node")).otherwise(F.lit("rank"))
    slow = rank_stats.withColumn("verdict", verdict).filter("is_slow")
    by_excess = Window.partitionBy(*ATTEMPT_KEY).orderBy("excess_ns", "rank")
    as_slow = F.count("*").over(Window.partitionBy(*ATTEMPT_KEY)) - F.row_number().over(by_excess) + 1
    more = F.col("excess_ns") - F.lag("excess_ns", 1, 0).over(by_excess)
    shared = slow.withColumn("shared_ns", F.call_function("div", more, as_slow))
    share = F.sum("shared_ns").over(by_excess.rowsBetween(Window.unboundedPreceding, 0))
    cost = share * F.col("step_count") * F.col("ranks_seen_count")
    return shared.withColumn("cost_sum_ns", cost).withColumn("metric_version", F.lit(METRIC_VERSION)).drop(
        "compute_ratio", "bubble_ratio", "is_host_bound", "is_slow", "reason", "shared_ns"
    )  # fmt: skip
