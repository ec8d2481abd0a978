"""Matrix products: how much they compute, and which could run faster in a shorter type."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import ATTEMPT_KEY, SOURCE_KEY

PRODUCTS = ("gemm", "conv", "attention", "moe")
"""Kernel classes whose work is counted in FLOPs."""
# Operator -> which argument is its first factor; the second follows.
_FACTORS = {
    "aten::mm": 0, "aten::bmm": 0, "aten::_scaled_mm": 0, "aten::addmm": 1, "aten::baddbmm": 1,
    "aten::_addmm_activation": 1,
}  # fmt: skip


def is_fp32_product() -> Column:
    """Products in fp32 outside tensor cores: a shorter type would run there."""
    return F.col("kernel_class").isin("gemm", "conv") & (F.col("precision") == "fp32") & ~F.col("is_tensor_core")


def shorter_types(devices: DataFrame) -> DataFrame:
    """Per attempt, shorter_types: what its devices' tensor cores take instead of fp32, in words; NULL where they have
    none. Volta and Turing (7.x) take fp16 only, Ampere brought tf32 and bf16.

    Of several kinds of device the oldest counts. Compute capabilities are NVIDIA's; others' are not told apart.
    """
    is_nvidia = ~F.coalesce(F.lower("name").rlike("amd|instinct|radeon"), F.lit(False))
    version = F.when(is_nvidia, F.col("compute_capability").try_cast("double"))
    oldest = devices.groupBy(*ATTEMPT_KEY).agg(F.min(version).alias("oldest"))
    types = (
        F.when(F.col("oldest").isNull(), F.lit("tf32, bf16 or fp16, whichever the device has"))
        .when(F.col("oldest") >= 8, F.lit("tf32 or bf16"))
        .when(F.col("oldest") >= 7, F.lit("fp16; these devices have neither tf32 nor bf16"))
    )
    return oldest.select(*ATTEMPT_KEY, types.alias("shorter_types"))


def known_flops(kernels: DataFrame, operators: DataFrame, group: list[str]) -> DataFrame:
    """Per `group` of kernels: flops, and flops_known_ns, the time of the kernels that they took.

    An operator counts once, with its longest kernel, however many it starts.
    """
    told = _told(operators)
    ran = kernels.filter(F.col("kernel_class").isin(*PRODUCTS) & F.col("launch_id").isNotNull())
    owned = ran.select(*SOURCE_KEY, "launch_id", *[name for name in group if name not in SOURCE_KEY], "duration_ns")
    each = (
        owned.join(told, [*SOURCE_KEY, "launch_id"])
        .groupBy("source_id", "operator_id", *group)
        .agg(F.sum("duration_ns").alias("spent"), F.max("flops").alias("flops"))
    )
    longest = Window.partitionBy(*SOURCE_KEY, "operator_id").orderBy(F.desc("spent"), *group)
    once = each.withColumn("flops", F.when(F.row_number().over(longest) == 1, F.col("flops")).otherwise(0))
    return once.groupBy(*group).agg(
        F.sum("flops").cast("double").alias("flops"), F.sum("spent").alias("flops_known_ns")
    )


def _told(operators: DataFrame) -> DataFrame:
    """Products with known shapes: (source, launch_id, operator_id, flops). Sums of integers do not depend on order."""
    shapes = operators.filter(F.col("name").isin(*_FACTORS) & F.col("shape").isNotNull())
    first = F.create_map(*[F.lit(each) for pair in _FACTORS.items() for each in pair])[F.col("name")]
    dims = shapes.withColumn("dims", F.from_json("shape", "array<array<bigint>>")).withColumn("first", first)
    factors = dims.withColumns({"a": F.get("dims", F.col("first")), "b": F.get("dims", F.col("first") + 1)})
    # Rows of the first times its columns times columns of the second, and of a batch, times its size.
    inner = F.get("a", F.size("a") - 1) == F.get("b", F.size("b") - 2)
    sizes = F.concat("a", F.slice("b", F.size("b"), 1))
    multiplied = F.aggregate(sizes, F.lit(2.0), lambda product, size: product * size.cast("double"))
    fits = F.size("a").isin(2, 3) & (F.size("a") == F.size("b")) & inner & (F.array_min(sizes) > 0)
    counted = factors.filter(fits).withColumn("flops", multiplied).filter("flops < 1e30")
    return counted.select(*SOURCE_KEY, "launch_id", "operator_id", F.col("flops").cast("decimal(30,0)").alias("flops"))
