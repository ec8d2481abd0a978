"""Kernels with their launch, class, precision, step and annotation."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.events import started_by
from tracelake.pipelines.functions.streams import crowded, lane, next_on_stream
from tracelake.pipelines.functions.where import SOURCE_KEY, with_device, with_place, with_where
from tracelake.pipelines.normalized.kernel_rules import classify

# Type names of tensors and collectives -> precision of the math.
_PRECISIONS = {
    "fp64": ("double", "float64", "c10::complex<double>"),
    "fp32": ("float", "float32", "c10::complex<float>"),
    "bf16": ("c10::bfloat16", "bfloat16"),
    "fp16": ("c10::half", "half", "float16"),
    "fp8": ("c10::float8_e4m3fn", "c10::float8_e5m2", "float8_e4m3fn", "float8_e5m2", "c10::float8_e4m3fnuz",
            "c10::float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    "int8": ("signed char", "unsigned char", "char", "byte", "int8", "uint8"),
    "int32": ("int", "int32", "unsigned int"),
}  # fmt: skip


def kernels(source: DataFrame, kernel: DataFrame, launches: DataFrame, operators: DataFrame) -> DataFrame:
    """One row per kernel execution.

    A kernel that wholly contains a later one of its stream and of another launch has an impossible duration:
    effective_end_ns is that one's start, the kernel is flagged `overrun`, and duration_ns is what every metric uses.
    Precision comes from the operator's or collective's type where linked, else from the name; a name that says tf32
    refines an fp32 operand, since tf32 is how the math reads it.
    """
    names = kernel.select("name").distinct().withColumn("name_id", F.xxhash64("name"))
    placed = with_place(kernel.withColumn("name_id", F.xxhash64("name")).drop("name"))
    owned = started_by(placed, with_place(launches))
    where = with_device(with_where(owned, source), source)
    ends = where.withColumns({"end_ns": F.col("start_ns") + F.col("duration_ns"), "lane": lane()})
    guarded = _guarded(ends, kernel, source)
    named = guarded.join(F.broadcast(classify(names)), "name_id")
    linked = named.join(
        operators.select(*SOURCE_KEY, "launch_id", F.col("name").alias("operator_name"),
                         F.col("dtype").alias("operator_dtype")),
        [*SOURCE_KEY, "launch_id"], "left",
    )  # fmt: skip
    return _with_precision(linked).withColumn("flags", _flags()).drop(
        "dtype", "operator_dtype", "name_precision", "is_overrun", "is_before_launch", "message_bytes", "group_id",
        "group_size_count", "sequence", "device_index", "name_id",
    )  # fmt: skip


def _guarded(kernels_: DataFrame, kernel: DataFrame, source: DataFrame) -> DataFrame:
    """Kernels with effective_end_ns; what follows on its stream is asked only where a kernel may contain another."""
    ran = kernel.select(*SOURCE_KEY, "device_index", "stream_id", "start_ns", "duration_ns")
    ends = with_device(with_where(ran, source), source).withColumn("end_ns", F.col("start_ns") + F.col("duration_ns"))
    suspects = F.broadcast(crowded(ends.withColumn("lane", lane())))
    sound = kernels_.join(suspects, "lane", "left_anti").drop("lane")
    sound = sound.withColumns({"is_overrun": F.lit(False), "effective_end_ns": F.col("end_ns")})
    return sound.unionByName(_overrun(next_on_stream(kernels_.join(suspects, "lane", "left_semi").drop("lane"))))


def _overrun(kernels_: DataFrame) -> DataFrame:
    contains = F.coalesce(F.col("earliest_end_ns") <= F.col("end_ns"), F.lit(False))
    guarded = kernels_.withColumns(
        {
            "is_overrun": contains,
            "effective_end_ns": F.when(contains, F.col("next_start_ns")).otherwise(F.col("end_ns")),
        }
    )
    return guarded.withColumn("duration_ns", F.col("effective_end_ns") - F.col("start_ns")).drop(
        "next_start_ns", "earliest_end_ns"
    )


def _with_precision(kernels_: DataFrame) -> DataFrame:
    operator, collective = _precision(F.col("operator_dtype")), _precision(F.col("dtype"))
    by_name = F.when(F.col("name_precision") != "unknown", F.col("name_precision"))
    refined = F.when((operator == "fp32") & (by_name == "tf32"), F.lit("tf32")).otherwise(operator)
    # An operator around a collective names its own operand; the collective's own argument is nearer.
    source = (
        F.when(collective.isNotNull(), F.lit("collective"))
        .when(operator.isNotNull(), F.lit("operator"))
        .when(by_name.isNotNull(), F.lit("name"))
        .otherwise(F.lit("none"))
    )
    return kernels_.withColumn("precision_source", source).withColumn(
        "precision", F.coalesce(collective, refined, by_name, F.lit("unknown"))
    )


def _precision(dtype: Column) -> Column:
    chosen = F.lit(None).cast("string")
    for precision, names in _PRECISIONS.items():
        chosen = F.when(F.lower(dtype).isin(*names), F.lit(precision)).otherwise(chosen)
    return chosen


def _flags() -> Column:
    return F.array_compact(
        F.array(
            F.when(F.col("is_overrun"), F.lit("overrun")),
            F.when(F.col("is_before_launch"), F.lit("before_launch")),
            F.when(F.col("launch_id").isNull(), F.lit("orphan")),
        )
    )
