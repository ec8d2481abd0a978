"""Each collective over all its ranks."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.clocks import aligned
from tracelake.pipelines.functions.collectives import bus_factor
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_KEY = ["job_id", "attempt", "match_group", "match_number"]


def collective_matches(
    collective_waits: DataFrame, clock_alignment: DataFrame, parameters: Parameters = DEFAULT
) -> DataFrame:
    """One row per collective. Starts are compared on aligned clocks only, and only where the clocks are good enough:
    a skew below some residuals of the alignment cannot be told from nothing.
    """
    clock = clock_alignment.select(
        "job_id", "source_id", F.struct("offset_ns", "drift_ppm", "origin_ns", "residual_ns").alias("clock")
    )
    apart = F.coalesce(F.col("reason").isin("rank_missing", "conflicting_rank", "point_to_point"), F.lit(False))
    calls = collective_waits.filter(~apart).join(F.broadcast(clock), ["job_id", "source_id"], "left")
    joined = calls.withColumn("aligned_ns", aligned(F.col("start_ns"), "clock")).groupBy(*_KEY).agg(*_over_ranks())
    return _skew(_bandwidth(joined), parameters).withColumn("metric_version", F.lit(METRIC_VERSION)).drop(
        "is_aligned", "residual_ns", "skew_ns", "waits"
    )  # fmt: skip


def _over_ranks() -> list[Column]:
    by_rank = F.struct("rank", "source_id")
    same_step = F.min(F.struct("step_name", "step_occurrence")) == F.max(F.struct("step_name", "step_occurrence"))
    reliable = F.col("is_reliable")
    return [
        *[F.min(name).alias(name) for name in ("group_id", "operation", "dtype", "match_method", "reason")],
        F.max("bytes").alias("bytes"),
        *[F.when(same_step, F.min(name)).alias(name) for name in ("step_name", "step_occurrence")],
        F.min_by("start_ns", by_rank).alias("start_ns"),
        *[F.max(name).alias(name) for name in ("ranks_seen_count", "ranks_expected_count")],
        F.min("is_reliable").alias("is_reliable"),
        F.min("transfer_ns").alias("transfer_ns"),
        F.sum("wait_ns").alias("wait_sum_ns"),
        F.max("wait_ns").alias("wait_max_ns"),
        F.min_by("rank", F.when(reliable, F.struct("wait_ns", "rank"))).alias("last_rank"),
        F.sort_array(F.collect_list("wait_ns")).alias("waits"),
        F.min(F.col("aligned_ns").isNotNull()).alias("is_aligned"),
        F.max("clock.residual_ns").alias("residual_ns"),
        (F.max("aligned_ns") - F.min("aligned_ns")).alias("skew_ns"),
    ]


def _bandwidth(matches: DataFrame) -> DataFrame:
    ranks = F.coalesce("ranks_expected_count", "ranks_seen_count")
    gathers = F.col("operation").rlike("(?i)all_?gather")
    message = F.when(gathers, F.col("bytes") * ranks).otherwise(F.col("bytes"))
    speed = F.when(F.col("transfer_ns") > 0, F.col("message_bytes") * 1e9 / F.col("transfer_ns"))
    return (
        matches.withColumn("last_margin_ns", F.get("waits", F.lit(1)))
        .withColumn("message_bytes", message)
        .withColumn("algo_bandwidth_bytes_per_s", speed)
        .withColumn(
            "bus_bandwidth_bytes_per_s", F.col("algo_bandwidth_bytes_per_s") * bus_factor(F.col("operation"), ranks)
        )
    )


def _skew(matches: DataFrame, parameters: Parameters) -> DataFrame:
    least = parameters.resolvable_residual_count * F.col("residual_ns")
    reason = (
        F.when(~F.col("is_reliable"), F.lit("unreliable_match"))
        .when(~F.col("is_aligned"), F.lit("no_alignment"))
        .when(F.col("skew_ns") < least, F.lit("not_resolvable"))
    )
    known = matches.withColumn("skew_reason", reason)
    return known.withColumn("start_skew_ns", F.when(F.col("skew_reason").isNull(), F.col("skew_ns")))
