"""Waits: blocking host calls and stream markers."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import with_device, with_where
from tracelake.schemas.apis import BLOCKING_SYNCS


def syncs(source: DataFrame, sync: DataFrame) -> DataFrame:
    """One row per wait. Host calls have a thread and no device; markers have a device and no thread."""
    placed = with_device(with_where(sync, source), source)
    return (
        placed.withColumn("end_ns", F.col("start_ns") + F.col("duration_ns"))
        .withColumn("is_blocking", F.col("kind").isin(*sorted(BLOCKING_SYNCS)))
        .withColumn("device_id", F.when(F.col("device_index").isNotNull(), F.col("device_id")))
        .drop("device_index", "correlation_id")
    )
