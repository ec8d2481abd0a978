"""What each step launched, wherever and whenever it ran."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import union_ns
from tracelake.pipelines.functions.where import SOURCE_KEY
from tracelake.pipelines.parameters import METRIC_VERSION

_STEP = [*SOURCE_KEY, "attempt", "step_name", "step_occurrence"]


def step_launches(launches: DataFrame, kernels: DataFrame, memops: DataFrame) -> DataFrame:
    """One row per step that launched something. Late execution counts here and moves into no other step."""
    device = F.xxhash64("device_id").alias("device")
    columns: list[Column | str] = [*_STEP, device, "start_ns"]
    events = kernels.select(*columns, F.col("effective_end_ns").alias("end_ns")).unionByName(
        memops.select(*columns, "end_ns")
    )
    inside = events.filter("step_name IS NOT NULL")
    # Zero-length events have no length to add, but they show that the step was captured.
    seen = inside.groupBy(*_STEP).agg(F.count("*").alias("event_count"))
    # A step as a number: many events are sorted by it.
    step = F.xxhash64(*_STEP).alias("step")
    united = union_ns(inside.select(step, "device", "start_ns", "end_ns"), ["step", "device"])
    times = united.groupBy("step").agg(F.sum("union_ns").alias("gpu_time_ns"))
    called = (
        launches.filter("step_name IS NOT NULL")
        .groupBy(*_STEP)
        .agg(
            F.count("*").alias("launch_count"),
            F.sum(F.col("is_kernel_producing").cast("bigint")).alias("producing_launch_count"),
        )
    )
    joined = called.join(seen, _STEP, "full").withColumn("step", step).join(times, "step", "left").drop("step")
    numbers = ("launch_count", "producing_launch_count", "event_count", "gpu_time_ns")
    filled = joined.withColumns({name: F.coalesce(name, F.lit(0)) for name in numbers})
    uncovered = (F.col("producing_launch_count") > 0) & (F.col("event_count") == 0)
    return filled.withColumns({"is_uncovered": uncovered, "metric_version": F.lit(METRIC_VERSION)})
