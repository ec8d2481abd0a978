"""Each rank over all steps, beside its peers."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.ranks import world
from tracelake.pipelines.functions.stats import nearest_rank
from tracelake.pipelines.functions.steps import of_main_step
from tracelake.pipelines.functions.where import ATTEMPT_KEY
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_RANK = [*ATTEMPT_KEY, "rank"]
_STEP = [*ATTEMPT_KEY, "step_name", "step_occurrence"]
_CLASSES = ("compute", "memcpy", "memset", "runtime", "data_loading", "host_work", "other")
_MAD = 1.4826


def rank_stats(
    sources: DataFrame,
    devices: DataFrame,
    step_ledger: DataFrame,
    rank_steps: DataFrame,
    device_samples: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """One row per rank. It is slow where its median excess stands out from its peers' work and from its own noise.

    Where the host sets the pace, ranks differ without a fault: then the excess must lie in one class.
    """
    compared = of_main_step(rank_steps.filter("rank IS NOT NULL AND reason IS NULL OR reason = 'one_rank'"))
    stats = _excess(compared)
    for facts, key in (
        (_classes(compared, step_ledger), _RANK),
        (_bubbles(compared, step_ledger), _RANK),
        (_clocks(devices, device_samples), _RANK),
        (_compared(compared), ATTEMPT_KEY),
        (world(sources).select(*ATTEMPT_KEY, F.col("world_size").alias("ranks_expected_count")), ATTEMPT_KEY),
    ):
        stats = stats.join(facts, key, "left")
    return _judged(_caused(stats, parameters), parameters).select(
        *ATTEMPT_KEY, "node_id", "rank", "step_name", "step_count", "ranks_seen_count", "ranks_expected_count",
        "own_work_median_ns", "peer_own_work_ns", "excess_ns", "spread_ns", "slowdown_ratio", "cause",
        "cause_excess_ns", "compute_ratio", "bubble_ratio", "clock_ratio", "throttled_ratio", "is_host_bound",
        "is_slow", "reason", F.lit(METRIC_VERSION).alias("metric_version"),
    )  # fmt: skip


def _excess(steps: DataFrame) -> DataFrame:
    medians = steps.groupBy(*_RANK, "step_name").agg(
        F.min("node_id").alias("node_id"),
        F.count("excess_ns").alias("step_count"),
        nearest_rank("own_work_ns", 0.5).alias("own_work_median_ns"),
        nearest_rank("peer_own_work_ns", 0.5).alias("peer_own_work_ns"),
        nearest_rank("excess_ns", 0.5).alias("excess_ns"),
    )
    away = F.abs(F.col("excess_ns") - F.col("usual")).alias("away")
    usual = medians.select(*_RANK, F.col("excess_ns").alias("usual"))
    spread = steps.join(usual, _RANK).select(*_RANK, away).groupBy(*_RANK).agg(nearest_rank("away", 0.5).alias("away"))
    peer = F.col("peer_own_work_ns")
    slowdown = F.when(peer > 0, (F.col("own_work_median_ns") - peer) / peer)
    return (
        medians.join(spread, _RANK)
        .withColumn("spread_ns", F.round(F.col("away") * _MAD).cast("bigint"))
        .withColumn("slowdown_ratio", slowdown)
        .drop("away")
    )


def _classes(steps: DataFrame, step_ledger: DataFrame) -> DataFrame:
    """Per rank: the median excess over its peers of each class of the step ledger and of launching calls."""
    parts = [f"{name}_ns" for name in _CLASSES]
    ledger = step_ledger.select("job_id", "source_id", "step_name", "step_occurrence", *parts)
    known = steps.join(ledger, ["job_id", "source_id", "step_name", "step_occurrence"])
    numbers = [*parts, "launch_call_ns"]
    values = known.select(*_STEP, "rank", "duration_ns", *[F.coalesce(name, F.lit(0)).alias(name) for name in numbers])
    peers = values.groupBy(*_STEP).agg(*[nearest_rank(name, 0.5).alias(f"peer_{name}") for name in numbers])
    above = values.join(peers, _STEP).select(
        *_RANK,
        *[(F.col(name) - F.col(f"peer_{name}")).alias(name) for name in numbers],
        (F.col("compute_ns") / F.col("duration_ns")).alias("compute_part"),
    )
    middle = F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY compute_part)").alias("compute_ratio")
    return above.groupBy(*_RANK).agg(*[nearest_rank(name, 0.5).alias(name) for name in numbers], middle)


def _bubbles(steps: DataFrame, step_ledger: DataFrame) -> DataFrame:
    """Per rank that sends or receives: how much of its median step it does nothing else. A step without any has 0."""
    keys = ["job_id", "source_id", "step_name", "step_occurrence"]
    sent = steps.select(*_RANK, *keys[1:], "duration_ns").join(step_ledger.select(*keys, "exposed_p2p_ns"), keys)
    part = F.coalesce("exposed_p2p_ns", F.lit(0)) / F.col("duration_ns")
    middle = F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY part)")
    known = sent.filter("duration_ns > 0").withColumn("part", part).groupBy(*_RANK)
    return known.agg(F.when(F.count("exposed_p2p_ns") > 0, middle).alias("bubble_ratio"))


def _clocks(devices: DataFrame, device_samples: DataFrame) -> DataFrame:
    """Per rank: its slowest device's clock over the peers', and how often heat or a power brake lowered it."""
    owners = devices.filter("rank IS NOT NULL").select(*_RANK, "device_id").distinct()
    read = device_samples.select(*ATTEMPT_KEY, "device_id", "clock_median_hz", "throttled_ratio")
    ranks = (
        owners.join(read, [*ATTEMPT_KEY, "device_id"])
        .groupBy(*_RANK)
        .agg(F.min("clock_median_hz").alias("clock_hz"), F.max("throttled_ratio").alias("throttled_ratio"))
    )
    peers = ranks.groupBy(*ATTEMPT_KEY).agg(nearest_rank("clock_hz", 0.5).alias("peer_hz"))
    ratio = F.when(F.col("peer_hz") > 0, F.col("clock_hz") / F.col("peer_hz")).alias("clock_ratio")
    return ranks.join(peers, ATTEMPT_KEY).select(*_RANK, ratio, "throttled_ratio")


def _compared(steps: DataFrame) -> DataFrame:
    return steps.groupBy(*ATTEMPT_KEY).agg(F.countDistinct("rank").alias("ranks_seen_count"))


def _caused(stats: DataFrame, parameters: Parameters) -> DataFrame:
    """Stats with the class that holds the excess. Communication on the device hides what the host does meanwhile on the
    ranks that wait, so longer launching calls count by themselves.
    """
    held = F.greatest(*[F.struct(F.col(f"{name}_ns").alias("ns"), F.lit(name).alias("name")) for name in _CLASSES])
    least = parameters.straggler_cause_min_ratio * F.col("excess_ns")
    calls = held["name"].isin("runtime", "host_work", "other") & (F.col("launch_call_ns") >= least)
    slowed = (F.col("clock_ratio") < parameters.throttled_clock_max_ratio) | (
        F.col("throttled_ratio") >= parameters.throttled_sample_min_ratio
    )
    name = (
        F.when(calls, F.lit("runtime"))
        .when(held["ns"] < least, F.lit("mixed"))
        .when((held["name"] == "compute") & F.coalesce(slowed, F.lit(False)), F.lit("throttled"))
        .otherwise(held["name"])
    )
    has_excess = (F.col("excess_ns") > 0) & held["ns"].isNotNull()
    size = F.when(calls, F.col("launch_call_ns")).otherwise(held["ns"])
    return stats.withColumn("cause", F.when(has_excess, name)).withColumn("cause_excess_ns", F.when(has_excess, size))


def _judged(stats: DataFrame, parameters: Parameters) -> DataFrame:
    job = stats.groupBy(*ATTEMPT_KEY).agg(
        F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY compute_ratio)").alias("usual_compute")
    )
    host_bound = F.coalesce(F.col("usual_compute") < parameters.host_bound_compute_max_ratio, F.lit(False))
    known = stats.join(F.broadcast(job), ATTEMPT_KEY).withColumn("is_host_bound", host_bound)
    peer = F.col("peer_own_work_ns")
    noise = F.greatest(F.col("spread_ns").cast("double"), parameters.straggler_noise_ratio * peer)
    stands_out = (F.col("excess_ns") > parameters.straggler_min_ratio * peer) & (
        F.col("excess_ns") > parameters.straggler_deviation_count * noise
    )
    return known.withColumn("reason", _reason(stands_out, parameters)).withColumn(
        "is_slow", F.when(F.col("reason").isNull(), F.coalesce(stands_out, F.lit(False)))
    )


def _reason(stands_out: Column, parameters: Parameters) -> Column:
    few = 2 * F.col("ranks_seen_count") < F.col("ranks_expected_count")
    return (
        F.when(F.col("ranks_seen_count") < 2, F.lit("one_rank"))
        .when(F.coalesce(few, F.lit(False)), F.lit("too_few_ranks"))
        .when(F.col("step_count") < parameters.straggler_min_step_count, F.lit("too_few_steps"))
        .when(stands_out & F.col("is_host_bound") & (F.col("cause") == "mixed"), F.lit("host_bound"))
    )
