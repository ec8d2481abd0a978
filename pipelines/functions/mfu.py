"""How much of what its devices could compute a job does compute."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.products import PRODUCTS
from tracelake.pipelines.functions.where import ATTEMPT_KEY
from tracelake.pipelines.parameters import Parameters

TOLD = "model_flops_per_step"
"""Hyperparameter, else tag, that tells how much all ranks together compute in a step."""
_FACTS = ("told_flops", "shape_flops", "shape_known_ratio", "math", "peak")


def with_mfu(rows: DataFrame, facts: DataFrame, parameters: Parameters) -> DataFrame:
    """Rows of job_summary with achieved_flops_per_s and mfu_ratio, both of the mean device, or mfu_reason.

    What the job tells counts over its median step, else what its operators' shapes tell over the recorded time.
    """
    known = rows.join(facts, ATTEMPT_KEY, "left")
    devices = F.greatest("device_count", F.coalesce("ranks_expected_count", F.lit(0)))
    step_s, time_s = F.col("step_median_ns") / 1e9, F.col("device_time_ns") / 1e9
    by_told = F.when((devices > 0) & (step_s > 0), F.col("told_flops") / devices / step_s)
    # Kernels of withheld windows have FLOPs too, but no time.
    is_whole = F.coalesce("withheld_ns", F.lit(0)) == 0
    enough = F.col("shape_known_ratio") >= parameters.flops_known_min_ratio
    by_shape = F.when(is_whole & enough & (time_s > 0), F.col("shape_flops") / time_s)
    achieved = F.when(F.col("told_flops").isNotNull(), by_told).otherwise(by_shape)
    counted = known.withColumn("achieved", achieved)
    why = (
        F.when(F.col("achieved").isNull() & F.col("told_flops").isNotNull(), F.lit("no_steps"))
        .when(F.col("achieved").isNull(), F.lit("flops_unknown"))
        .when(F.coalesce("math", F.lit("unknown")) == "unknown", F.lit("precision_unknown"))
        .when(F.col("peak").isNull(), F.lit("peak_unknown"))
        .when(F.col("achieved") > F.col("peak"), F.lit("flops_exceed_peak"))
    )
    is_possible = F.coalesce(F.col("mfu_reason") != "flops_exceed_peak", F.lit(True))
    source = F.when(F.col("told_flops").isNotNull(), F.lit("told")).otherwise(F.lit("shapes"))
    return counted.withColumn("mfu_reason", why).withColumns(
        {
            "achieved_flops_per_s": F.when(is_possible, F.col("achieved")),
            "flops_source": F.when(F.col("achieved").isNotNull(), source),
            "peak_flops_per_s": F.col("peak"),
            "mfu_ratio": F.when(F.col("mfu_reason").isNull(), F.col("achieved") / F.col("peak")),
        }
    ).drop("achieved", *_FACTS)  # fmt: skip


def mfu_facts(jobs: DataFrame, devices: DataFrame, precision_stats: DataFrame, parameters: Parameters) -> DataFrame:
    """Per attempt: FLOPs as told (of a step) and by shapes (of all recorded), and what its devices could do in the
    precision of most of its products."""
    told = jobs.select("job_id", _told().alias("told_flops"))
    products = precision_stats.filter(F.col("kernel_class").isin(*PRODUCTS))
    # Tensor cores read an fp32 operand as tf32.
    is_tf32 = F.col("is_tensor_core") & (F.col("precision") == "fp32")
    math = F.when(is_tf32, F.lit("tf32")).otherwise(F.col("precision"))
    each = products.groupBy(*ATTEMPT_KEY, math.alias("math")).agg(
        *[F.sum(name).alias(name) for name in ("duration_sum_ns", "flops_known_ns", "flops")]
    )
    time = F.sum("duration_sum_ns")
    of_attempt = each.groupBy(*ATTEMPT_KEY).agg(
        F.max_by("math", F.struct("duration_sum_ns", "math")).alias("math"),
        F.sum("flops").alias("shape_flops"),
        F.when(time > 0, F.sum("flops_known_ns") / time).alias("shape_known_ratio"),
    )
    used = devices.select(*ATTEMPT_KEY, "device_id", "name").distinct()
    rated = used.join(of_attempt.select(*ATTEMPT_KEY, "math"), ATTEMPT_KEY).withColumn("rate", _rate(parameters))
    # The mean device has no peak where one of them has none.
    peaks = rated.groupBy(*ATTEMPT_KEY).agg(F.when(F.count("rate") == F.count("*"), F.avg("rate")).alias("peak"))
    attempts = used.select(*ATTEMPT_KEY).distinct()
    return attempts.join(of_attempt, ATTEMPT_KEY, "left").join(peaks, ATTEMPT_KEY, "left").join(told, "job_id", "left")


def _told() -> Column:
    text = F.coalesce(F.col("hyperparameters")[TOLD], F.col("tags")[TOLD])
    value = text.try_cast("double")
    return F.when((value > 0) & (value < 1e30), value)


def _rate(parameters: Parameters) -> Column:
    """Peak of a device by its name and the precision; the first pattern that matches decides. Of a part of a device
    (MIG) none is published."""
    rate = F.lit(None).cast("double")
    for pattern, by_precision in reversed(list(parameters.peak_flops.items())):
        pairs = [F.lit(each) for precision, peak in by_precision.items() for each in (precision, float(peak))]
        rate = F.when(F.col("name").rlike(f"(?i){pattern}"), F.create_map(*pairs)[F.col("math")]).otherwise(rate)
    return F.when(~F.col("name").rlike(r"\bMIG\b"), rate)
