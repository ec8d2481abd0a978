"""The figures that a page opens with."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.mfu import mfu_facts, with_mfu
from tracelake.pipelines.functions.ranks import with_clash
from tracelake.pipelines.functions.stats import nearest_rank
from tracelake.pipelines.functions.steps import of_main_step
from tracelake.pipelines.functions.where import ATTEMPT_KEY, SOURCE_KEY
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters
from tracelake.schemas.steps import NO_STEPS_REASONS

_LEDGER = (
    "compute_ns",
    "exposed_comm_ns",
    "exposed_mem_ns",
    "idle_ns",
    "sync_idle_ns",
    "comm_ns",
    "overlapped_comm_ns",
)
_MOST_RANKS = 1_000


def job_summary(
    jobs: DataFrame,
    sources: DataFrame,
    devices: DataFrame,
    device_ledger: DataFrame,
    step_ledger: DataFrame,
    kernel_stats: DataFrame,
    launch_stats: DataFrame,
    memop_stats: DataFrame,
    precision_stats: DataFrame,
    samples: DataFrame,
    rank_stats: DataFrame,
    step_times: DataFrame,
    step_periods: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """One row per attempt. A figure whose evidence is missing is NULL; `reasons` names why."""
    joined = _windows(sources, jobs)
    for facts in (
        devices.groupBy(*ATTEMPT_KEY).agg(F.countDistinct("device_id").alias("device_count")),
        _ledger(device_ledger),
        _steps(step_ledger),
        _count(kernel_stats, "kernel_count").withColumnRenamed("duration_sum_ns", "kernel_sum_ns"),
        _launches(launch_stats),
        _count(memop_stats, "memop_count").drop("duration_sum_ns"),
        _precision(precision_stats),
        _samples(samples, sources),
        _stragglers(rank_stats),
        _outliers(step_times, step_ledger),
        _inferred(step_ledger, step_periods),
        step_ledger.groupBy(*ATTEMPT_KEY).agg(F.max(F.col("exposed_p2p_ns").isNotNull()).alias("has_sends")),
    ):
        joined = joined.join(facts, ATTEMPT_KEY, "left")
    for name in ("device_count", "step_count", "uncovered_step_count", "kernel_count", "launch_count", "memop_count",
                 "kernel_sum_ns"):  # fmt: skip
        joined = joined.withColumn(name, F.coalesce(name, F.lit(0)))
    joined = with_mfu(joined, mfu_facts(jobs, devices, precision_stats, parameters), parameters)
    joined = joined.join(_ranks(sources), ATTEMPT_KEY, "left")
    unsaid = F.when(F.col("straggler_count").isNull(), F.coalesce("stragglers_reason", F.lit("no_comparable_steps")))
    joined = joined.withColumn("stragglers_reason", unsaid)
    why = F.when(F.col("has_sends"), F.lit("no_comparable_steps")).otherwise(F.lit("no_send_recv"))
    joined = joined.withColumn("bubble_reason", F.when(F.col("bubble_ratio").isNull(), why))
    unjudged = F.when(F.col("slow_step_count").isNull(), F.coalesce("outlier_steps_reason", F.lit("no_steps")))
    joined = joined.withColumn("outlier_steps_reason", unjudged)
    return (
        _missing(joined)
        .withColumn("metric_version", F.lit(METRIC_VERSION))
        .drop("ranks_usable", "gpu_reasons", "has_sends", "flags", "comm_ns", "overlapped_comm_ns", "status_rank")
    )


def _windows(sources: DataFrame, jobs: DataFrame) -> DataFrame:
    order = F.array(*[F.lit(s) for s in ("complete", "superseded", "running", "interrupted", "incomplete", "degraded")])
    grouped = sources.groupBy(*ATTEMPT_KEY).agg(
        F.max(F.array_position(order, F.col("status"))).alias("status_rank"),
        F.collect_set("gpu_reason").alias("gpu_reasons"),
        F.array_distinct(F.flatten(F.collect_set("flags"))).alias("flags"),
        F.min("window_start_ns").alias("started_ns"),
        F.max("window_end_ns").alias("ended_ns"),
        F.count("*").alias("source_count"),
        F.countDistinct("node_id").alias("node_count"),
        F.max("world_size").cast("bigint").alias("world_size"),
        F.sum("rows_read").alias("rows_read_count"),
        F.sum("rows_quarantined").alias("rows_quarantined_count"),
    )
    expected = F.coalesce("world_size", F.col("job_world_size"))
    known = jobs.select("job_id", F.col("world_size").cast("bigint").alias("job_world_size"))
    return (
        grouped.join(F.broadcast(known), "job_id", "left")
        .withColumn("status", F.element_at(order, F.col("status_rank").cast("int")))
        .withColumn("ranks_expected_count", expected)
        .drop("world_size", "job_world_size")
    )


def _ledger(device_ledger: DataFrame) -> DataFrame:
    """Over the windows that have numbers; withheld ones are in no numerator and no denominator, and said."""
    windows = device_ledger.filter("scope = 'window' AND device_id IS NOT NULL")
    counted = F.col("reason").isNull()
    sums = windows.groupBy(*ATTEMPT_KEY).agg(
        F.sum(F.when(counted, F.col("window_ns"))).alias("device_time_ns"),
        F.sum(F.when(~counted, F.col("window_ns"))).alias("withheld_ns"),
        *[F.sum(name).alias(name) for name in _LEDGER],
    )
    busy = F.col("compute_ns") + F.col("exposed_comm_ns")
    has_time = F.col("device_time_ns") > 0
    return (
        sums.withColumn(
            "gpu_active_ratio", F.when(has_time, (busy + F.col("exposed_mem_ns")) / F.col("device_time_ns"))
        )
        .withColumn("kernel_busy_ratio", F.when(has_time, busy / F.col("device_time_ns")))
        .withColumn("comm_overlap_ratio", F.when(F.col("comm_ns") > 0, F.col("overlapped_comm_ns") / F.col("comm_ns")))
    )


def _steps(step_ledger: DataFrame) -> DataFrame:
    """Of the step name with the most time: the slowest rank's time per occurrence. Cut steps are left out."""
    per_step = (
        of_main_step(step_ledger)
        .groupBy(*ATTEMPT_KEY, "step_occurrence")
        .agg(
            F.max(F.when(F.col("status") == "complete", F.col("duration_ns"))).alias("step_ns"),
            F.max((F.col("status") == "uncovered").cast("int")).alias("is_uncovered"),
        )
    )
    return per_step.groupBy(*ATTEMPT_KEY).agg(
        F.count("step_ns").alias("step_count"),
        F.sum("is_uncovered").alias("uncovered_step_count"),
        nearest_rank("step_ns", 0.5).alias("step_median_ns"),
        F.max("step_ns").alias("step_max_ns"),
    )


def _inferred(step_ledger: DataFrame, step_periods: DataFrame) -> DataFrame:
    """Whether the steps are inferred, and how evenly they repeat; else why there are none."""
    is_inferred = F.max(F.coalesce("is_inferred", F.lit(False)))
    steps = of_main_step(step_ledger).groupBy(*ATTEMPT_KEY).agg(is_inferred.alias("is_step_inferred"))
    has_steps = F.col("reason").isNull()
    known = F.array_position(F.array(*[F.lit(reason) for reason in NO_STEPS_REASONS]), F.col("reason"))
    windows = step_periods.groupBy(*ATTEMPT_KEY).agg(
        F.mode(F.when(has_steps, F.col("period_launch_count")), True).alias("step_period_launch_count"),
        F.min(F.when(has_steps, F.col("agreement_ratio"))).alias("step_agreement_ratio"),
        F.max_by("reason", known).alias("no_steps_reason"),
    )
    told = {
        name: F.when(F.col("is_step_inferred"), F.col(name))
        for name in ("step_period_launch_count", "step_agreement_ratio")
    }
    unknown = F.when(F.col("is_step_inferred").isNull(), F.col("no_steps_reason"))
    return steps.join(windows, ATTEMPT_KEY, "full").withColumns({**told, "no_steps_reason": unknown})


def _count(stats: DataFrame, count: str) -> DataFrame:
    return stats.groupBy(*ATTEMPT_KEY).agg(F.sum(count).alias(count), F.sum("duration_sum_ns").alias("duration_sum_ns"))


def _launches(launch_stats: DataFrame) -> DataFrame:
    grouped = launch_stats.groupBy(*ATTEMPT_KEY).agg(
        F.sum("launch_count").alias("launch_count"),
        F.sum("producing_launch_count").alias("producing"),
        F.sum("covered_launch_count").alias("covered"),
    )
    ratio = F.when(F.col("producing") > 0, F.col("covered") / F.col("producing"))
    return grouped.withColumn("launch_coverage_ratio", ratio).drop("producing", "covered")


def _precision(precision_stats: DataFrame) -> DataFrame:
    compute = precision_stats.filter("kernel_class <> 'communication'")
    time = F.sum("duration_sum_ns")
    return compute.groupBy(*ATTEMPT_KEY).agg(
        F.when(time > 0, F.sum(F.col("is_tensor_core").cast("int") * F.col("duration_sum_ns")) / time).alias(
            "tensor_core_ratio"
        ),
        F.when(time > 0, F.sum((F.col("precision") != "unknown").cast("int") * F.col("duration_sum_ns")) / time).alias(
            "precision_known_ratio"
        ),
        F.sum("fp32_product_ns").alias("fp32_product_ns"),
    )


def _samples(samples: DataFrame, sources: DataFrame) -> DataFrame:
    """Means of valid samples inside the windows: sampling begins before recording and stretches nothing."""
    bounds = sources.select(*SOURCE_KEY, "window_start_ns", "window_end_ns")
    inside = samples.join(F.broadcast(bounds), SOURCE_KEY).filter("at_ns >= window_start_ns AND at_ns < window_end_ns")
    core = inside.filter("entity_kind = 'core' AND metric = 'cpu_util_ratio'")
    valid = F.when(F.col("is_valid"), F.col("value"))
    nodes = core.groupBy(*ATTEMPT_KEY, "node_id").agg(
        F.avg(valid).alias("node_util"),
        F.sum((valid > 0).cast("bigint")).alias("active"),
        F.count(valid).alias("valid"),
    )
    cpu = nodes.groupBy(*ATTEMPT_KEY).agg(
        F.avg("node_util").alias("cpu_util_ratio"),
        F.when(F.sum("valid") > 0, F.sum("active") / F.sum("valid")).alias("cpu_active_ratio"),
    )
    gpu = (
        inside.filter("entity_kind = 'device' AND metric = 'gpu_util_ratio'")
        .groupBy(*ATTEMPT_KEY)
        .agg(
            F.avg(valid).alias("gpu_util_sampled_ratio"),
            F.avg(F.col("is_valid").cast("double")).alias("gpu_util_sampled_coverage_ratio"),
        )
    )
    return cpu.join(gpu, ATTEMPT_KEY, "full")


def _stragglers(rank_stats: DataFrame) -> DataFrame:
    """Slow ranks, where any could be judged; else why none could. And the median rank's bubble."""
    judged = F.count_if(F.col("is_slow").isNotNull()) > 0
    return rank_stats.groupBy(*ATTEMPT_KEY).agg(
        F.when(judged, F.count_if("is_slow")).alias("straggler_count"),
        F.min("reason").alias("stragglers_reason"),
        F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY bubble_ratio)").alias("bubble_ratio"),
    )


def _outliers(step_times: DataFrame, step_ledger: DataFrame) -> DataFrame:
    """Slow steps, where any of training could be judged; else why none could: too few, or what withholds them."""
    judged = F.count_if((F.col("step_group") == "training") & F.col("score").isNotNull()) > 0
    counts = step_times.groupBy(*ATTEMPT_KEY).agg(
        F.when(judged, F.count_if(F.col("kind") == "slow")).alias("slow_step_count"), F.min("reason").alias("too_few")
    )
    withheld = step_ledger.groupBy(*ATTEMPT_KEY).agg(F.max("reason").alias("withheld"))
    reasons = withheld.join(counts, ATTEMPT_KEY, "left").withColumn(
        "outlier_steps_reason", F.coalesce("too_few", "withheld")
    )
    return reasons.drop("too_few", "withheld")


def _ranks(sources: DataFrame) -> DataFrame:
    """Ranks seen, and those that two overlapping windows claim: both are kept, and the rank counts as missing."""
    per_rank = with_clash(sources).groupBy(*ATTEMPT_KEY, "rank").agg(F.max("is_clash").alias("is_clash"))
    rank = F.col("rank").cast("bigint")
    return per_rank.groupBy(*ATTEMPT_KEY).agg(
        F.array_sort(F.collect_list(rank)).alias("ranks_present"),
        F.array_sort(F.collect_list(F.when(~F.col("is_clash"), rank))).alias("ranks_usable"),
        F.array_sort(F.collect_list(F.when(F.col("is_clash"), rank))).alias("conflicting_ranks"),
    )


def _missing(rows: DataFrame) -> DataFrame:
    none = F.array().cast("array<bigint>")
    present = F.coalesce("ranks_present", none)
    last = F.least(F.col("ranks_expected_count") - 1, F.lit(_MOST_RANKS - 1))
    every = F.when(F.col("ranks_expected_count") > 0, F.sequence(F.lit(0).cast("bigint"), last)).otherwise(none)
    return (
        rows.withColumn("ranks_seen_count", F.size(F.coalesce("ranks_usable", none)))
        .withColumn("missing_ranks", F.array_except(every, present))
        .withColumn("conflicting_ranks", F.coalesce("conflicting_ranks", none))
        .withColumn("reasons", _reasons())
        .drop("ranks_present")
    )


def _reasons() -> Column:
    more = F.array_compact(
        F.array(
            F.when(F.size("missing_ranks") > 0, F.lit("missing_ranks")),
            F.when(F.size("conflicting_ranks") > 0, F.lit("conflicting_ranks")),
            F.when(F.col("uncovered_step_count") > 0, F.lit("uncovered_steps")),
            F.when(F.col("rows_quarantined_count") > 0, F.lit("quarantined_rows")),
        )
    )
    return F.array_sort(F.array_distinct(F.concat("gpu_reasons", "flags", more)))
