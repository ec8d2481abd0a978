"""What each device did, in nanoseconds per time bucket and step: one sweep, which the ledger's scopes sum."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import DEVICE_KEY, PARTS, clipped, closed_steps, device_events, with_bucket
from tracelake.pipelines.functions.intervals import sliced, sweep
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
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
    bounds = windows.select(*SOURCE_KEY, "attempt", "window_start_ns", "window_end_ns", "bucket_ns")
    places = devices.select(*DEVICE_KEY).join(F.broadcast(bounds), SOURCE_KEY).withColumn(PLACE, place(*DEVICE_KEY))
    stretches = _stretches(places, device_events(kernels, memops), syncs, steps)
    sums = stretches.groupBy(PLACE, "slice", F.col("value").alias("annotation_id")).agg(*_sums())
    placed = sums.withColumnRenamed("slice", "bucket").join(F.broadcast(places), PLACE)
    named = steps.select(*SOURCE_KEY, "annotation_id", F.col("name").alias("step_name"), "step_occurrence")
    return placed.join(named, [*SOURCE_KEY, "annotation_id"], "left").select(
        "job_id", "attempt", "source_id", "device_id", "bucket", "step_name", "step_occurrence", *PARTS,
        F.lit(METRIC_VERSION).alias("metric_version"),
    )  # fmt: skip


def _stretches(places: DataFrame, events: DataFrame, syncs: DataFrame, steps: DataFrame) -> DataFrame:
    """Elementary stretches per device (`place`) and bucket, cut at step edges too, with the step that they are in."""
    number = F.lit(None).cast("bigint").alias("value")
    waits = syncs.filter("is_blocking").select(*SOURCE_KEY, F.lit("sync").alias("label"), "start_ns", "end_ns", number)
    marks = steps.select(
        *SOURCE_KEY, F.lit("step").alias("label"), "start_ns", "end_ns", F.col("annotation_id").alias("value")
    )
    host = waits.unionByName(marks).join(F.broadcast(places.select(*SOURCE_KEY, PLACE)), SOURCE_KEY)
    mem = F.when(F.col("label").isin("memcpy", "memset"), F.lit("mem")).otherwise(F.col("label"))
    device = events.select(place(*DEVICE_KEY), mem.alias("label"), "start_ns", "end_ns", number)
    labelled = clipped(device.unionByName(host.drop(*SOURCE_KEY)), places, [PLACE])
    wide = labelled.join(F.broadcast(places.select(PLACE, "bucket_ns")), PLACE)
    pieces = sliced(wide, "start_ns", "end_ns", F.col("window_start_ns"), F.col("bucket_ns"))
    return sweep(pieces, [PLACE, "slice"], ["comp", "comm", "mem", "sync", "step"], told="step")


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
