"""Kernel time by class, precision and what the precision rests on."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.products import is_fp32_product, known_flops
from tracelake.pipelines.parameters import METRIC_VERSION

_GROUP = ["job_id", "attempt", "kernel_class", "precision", "precision_source", "is_tensor_core"]


def precision_stats(kernels: DataFrame, operators: DataFrame) -> DataFrame:
    """One row per class, precision, evidence and use of tensor cores, with the FLOPs that operators' shapes tell."""
    grouped = kernels.groupBy(*_GROUP).agg(
        F.count("*").alias("kernel_count"), F.sum("duration_ns").alias("duration_sum_ns")
    )
    told = grouped.join(known_flops(kernels, operators, _GROUP), _GROUP, "left")
    return told.withColumns(
        {
            "fp32_product_ns": F.when(is_fp32_product(), F.col("duration_sum_ns")).otherwise(0),
            "flops_known_ns": F.coalesce("flops_known_ns", F.lit(0)),
            "metric_version": F.lit(METRIC_VERSION),
        }
    )
