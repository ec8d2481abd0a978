"""Communication kernels whose arguments say which collective they run."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import SOURCE_KEY


def collectives(kernels: DataFrame, kernel: DataFrame) -> DataFrame:
    """One row per kernel with a collective's name; times are the kernel's, its impossible end cut."""
    said = kernel.filter("collective_name IS NOT NULL").select(
        *SOURCE_KEY,
        "event_id",
        "group_id",
        "group_size_count",
        "sequence",
        F.col("collective_name").alias("operation"),
        F.col("message_bytes").alias("bytes"),
        "dtype",
    )
    where = kernels.select(
        "day", *SOURCE_KEY, "attempt", "node_id", "rank", "device_id", "event_id", "start_ns",
        F.col("effective_end_ns").alias("end_ns"), "duration_ns",
    )  # fmt: skip
    return where.join(said, [*SOURCE_KEY, "event_id"]).withColumnRenamed("event_id", "kernel_id")
