"""What each device did, in nanoseconds per time bucket and step: one sweep, which the ledger's scopes sum."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import DEVICE_KEY, PARTS, clipped, closed_steps, device_events, with_bucket
from tracelake.pipelines.functions.intervals import open_then, sliced, sweep
from tracelake.pipelines.functions.where import SOURCE_KEY
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters


def device_activity(
    sources: DataFrame,
    devices: DataFrame,
    kernels: DataFrame,
    memops: DataFrame,
    syncs: DataFrame,
    annotations: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """One row per device, bucket and step with anything live; buckets count from the window's start.

    Events are clipped to their window. Blocking synchronizations of the process only tell which idle time they hold.
    """
    windows = with_bucket(sources, parameters.time_bucket_most_count)
    steps = closed_steps(annotations, windows)
    stretches = _stretches(windows, devices, device_events(kernels, memops), syncs, steps)
    named = steps.select(*SOURCE_KEY, F.struct("name", "step_occurrence").alias("value"), "start_ns", "end_ns")
    timed = stretches.withColumnsRenamed({"slice": "bucket"}).withColumn("at_ns", F.col("start_ns"))
    placed = open_then(timed, named, SOURCE_KEY, "step")
    sums = placed.groupBy(*DEVICE_KEY, "bucket", "step").agg(*_sums())
    attempts = F.broadcast(windows.select(*SOURCE_KEY, "attempt"))
    return sums.join(attempts, SOURCE_KEY).select(
        "job_id", "attempt", "source_id", "device_id", "bucket", F.col("step.name").alias("step_name"),
        F.col("step.step_occurrence").alias("step_occurrence"), *PARTS, F.lit(METRIC_VERSION).alias("metric_version"),
    )  # fmt: skip


def _stretches(
    windows: DataFrame, devices: DataFrame, events: DataFrame, syncs: DataFrame, steps: DataFrame
) -> DataFrame:
    """Elementary stretches per device and bucket, cut at step edges too."""
    waits = syncs.filter("is_blocking").select(*SOURCE_KEY, F.lit("sync").alias("label"), "start_ns", "end_ns")
    marks = steps.select(*SOURCE_KEY, F.lit("step").alias("label"), "start_ns", "end_ns")
    host = waits.unionByName(marks).join(F.broadcast(devices.select(*DEVICE_KEY)), SOURCE_KEY)
    mem = F.when(F.col("label").isin("memcpy", "memset"), F.lit("mem")).otherwise(F.col("label"))
    labelled = clipped(events.withColumn("label", mem).unionByName(host), windows)
    wide = labelled.join(F.broadcast(windows.select(*SOURCE_KEY, "bucket_ns")), SOURCE_KEY)
    pieces = sliced(wide, "start_ns", "end_ns", F.col("window_start_ns"), F.col("bucket_ns"))
    return sweep(pieces, [*DEVICE_KEY, "slice"], ["comp", "comm", "mem", "sync", "step"])


def _sums() -> list[Column]:
    length = F.col("end_ns") - F.col("start_ns")
    comp, comm, mem, sync = (F.col(name) for name in ("comp", "comm", "mem", "sync"))
    conditions = {
        "compute_ns": comp,
        "exposed_comm_ns": comm & ~comp,
        "exposed_mem_ns": mem & ~comp & ~comm,
        "sync_idle_ns": sync & ~comp & ~comm & ~mem,
        "comm_ns": comm,
        "overlapped_comm_ns": comm & comp,
    }
    return [F.sum(F.when(condition, length).otherwise(0)).alias(name) for name, condition in conditions.items()]
