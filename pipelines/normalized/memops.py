"""Copies and fills with their launch, step and annotation."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.events import started_by
from tracelake.pipelines.functions.where import with_device, with_place, with_where


def memops(source: DataFrame, memop: DataFrame, launches: DataFrame) -> DataFrame:
    """One row per operation; delays and flags as for kernels."""
    owned = with_device(with_where(started_by(with_place(memop), with_place(launches)), source), source)
    flags = F.array_compact(
        F.array(
            F.when(F.col("is_before_launch"), F.lit("before_launch")),
            F.when(F.col("launch_id").isNull(), F.lit("orphan")),
        )
    )
    return (
        owned.withColumn("end_ns", F.col("start_ns") + F.col("duration_ns"))
        .withColumn("flags", flags)
        .drop("is_before_launch", "queue_delay_ns", "device_index")
    )
