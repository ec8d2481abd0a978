"""Device activity and steps as labelled intervals, the input of both ledgers."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import SOURCE_KEY

DEVICE_KEY = [*SOURCE_KEY, "device_id"]
PARTS = ("compute_ns", "exposed_comm_ns", "exposed_mem_ns", "sync_idle_ns", "comm_ns", "overlapped_comm_ns")
"""Columns that a device's time is summed into; those that are no part of the identity stand at the end."""


def device_events(kernels: DataFrame, memops: DataFrame) -> DataFrame:
    """(job_id, source_id, device_id, label, start_ns, end_ns): kernels as comp or comm, copies and fills by kind."""
    label = F.when(F.col("kernel_class") == "communication", F.lit("comm")).otherwise(F.lit("comp"))
    ran = kernels.select(*DEVICE_KEY, label.alias("label"), "start_ns", F.col("effective_end_ns").alias("end_ns"))
    moved = memops.select(*DEVICE_KEY, F.col("kind").alias("label"), "start_ns", "end_ns")
    return ran.unionByName(moved)


def clipped(intervals: DataFrame, windows: DataFrame, key: Sequence[str] = SOURCE_KEY) -> DataFrame:
    """Intervals cut to their window (window_start_ns, window_end_ns per source, kept); those outside vanish."""
    bounds = windows.select(*key, "window_start_ns", "window_end_ns")
    return (
        intervals.join(F.broadcast(bounds), list(key))
        .withColumn("start_ns", F.greatest("start_ns", "window_start_ns"))
        .withColumn("end_ns", F.least("end_ns", "window_end_ns"))
        .filter("end_ns > start_ns")
    )


def closed_steps(annotations: DataFrame, windows: DataFrame) -> DataFrame:
    """Closed steps with their source's window; `is_cut` where a step ends after it."""
    columns = [
        *SOURCE_KEY,
        "attempt",
        "node_id",
        "rank",
        "thread_id",
        "annotation_id",
        "name",
        "index",
        "step_occurrence",
        "is_inferred",
    ]
    found = annotations.filter("is_step AND is_closed AND duration_ns > 0")
    steps = found.select(*columns, "start_ns", "end_ns", "duration_ns")
    bounds = windows.select(*SOURCE_KEY, "window_start_ns", "window_end_ns", "gpu_reason")
    return steps.join(F.broadcast(bounds), SOURCE_KEY).withColumn("is_cut", F.col("end_ns") > F.col("window_end_ns"))


def nice(at_least: Column) -> Column:
    """The smallest of 1, 2, 5, 10, 20, 50, … that is not below a positive integer column, as bigint."""
    power = F.pow(F.lit(10.0), F.floor(F.log10(F.greatest(at_least, F.lit(1)).cast("double")))).cast("bigint")
    steps = (
        F.when(at_least <= power, power).when(at_least <= 2 * power, 2 * power).when(at_least <= 5 * power, 5 * power)
    )
    return steps.otherwise(10 * power)


def with_bucket(windows: DataFrame, most: int) -> DataFrame:
    """Windows with bucket_ns: one width per attempt, from the 1-2-5 series, at most `most` buckets a window."""
    length = F.col("window_end_ns") - F.col("window_start_ns")
    longest = F.max(length).over(Window.partitionBy("job_id", "attempt"))
    return windows.withColumn("bucket_ns", nice(F.ceil(longest / most).cast("bigint")))
