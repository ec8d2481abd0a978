"""Where an event happened: the columns that every event table opens with, and the device's identity."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SOURCE_KEY = ["job_id", "source_id"]
ATTEMPT_KEY = ["job_id", "attempt"]
_DEVICES = (
    "array<struct<index:bigint,uuid:string,name:string,memory_bytes:bigint,sm_count:bigint,compute_capability:string>>"
)


PLACE = "place"
"""A window, or a device of one, as a number: as a key of many events, their text costs most of the time."""


def place(*names: str) -> Column:
    """The number of what these columns name: a hash of 64 bits, so that it needs no table that all share."""
    return F.xxhash64(*names).alias(PLACE)


def with_place(events: DataFrame) -> DataFrame:
    """Events with `place` for job_id and source_id."""
    return events.withColumn(PLACE, place(*SOURCE_KEY)).drop(*SOURCE_KEY)


def one_per_window(source: DataFrame) -> DataFrame:
    """raw.source with one row per window: the closing row where there is one. Adds `is_closed`; what has it is that."""
    if "is_closed" in source.columns:
        return source
    rows = F.struct(*[F.col(name) for name in source.columns])
    is_close = (F.col("phase") == "close").cast("int")
    best = source.groupBy(*SOURCE_KEY).agg(F.max_by(rows, is_close).alias("row"))
    return best.select("row.*").withColumn("is_closed", F.col("phase") == "close")


def with_where(events: DataFrame, source: DataFrame) -> DataFrame:
    """Events, keyed by source or by `place`, with the source, day, attempt, node_id and rank of their window."""
    where = one_per_window(source).select(*SOURCE_KEY, "day", "attempt", "node_id", "rank")
    if PLACE not in events.columns:
        return events.join(F.broadcast(where), SOURCE_KEY)
    return events.join(F.broadcast(where.withColumn(PLACE, place(*SOURCE_KEY))), PLACE).drop(PLACE)


def listed_devices(source: DataFrame) -> DataFrame:
    """(job_id, source_id, device_index, device_uuid, name, memory_bytes, sm_count, compute_capability)."""
    listed = F.explode(F.from_json("devices", _DEVICES)).alias("device")
    device = one_per_window(source).select(*SOURCE_KEY, listed)
    return device.select(
        *SOURCE_KEY,
        F.col("device.index").alias("device_index"),
        F.col("device.uuid").alias("device_uuid"),
        *[F.col(f"device.{name}").alias(name) for name in ("name", "memory_bytes", "sm_count", "compute_capability")],
    ).dropDuplicates([*SOURCE_KEY, "device_index"])


def with_device(events: DataFrame, source: DataFrame) -> DataFrame:
    """Events of `with_where` with device_id: UUID, else node and index, else rank (or source) and index.

    Without UUID and node, "GPU 0" of two ranks are two devices.
    """
    uuids = listed_devices(source).select(*SOURCE_KEY, "device_index", "device_uuid")
    joined = events.join(F.broadcast(uuids), [*SOURCE_KEY, "device_index"], "left")
    return joined.withColumn("device_id", _device_id()).drop("device_uuid")


def _device_id() -> Column:
    index = F.concat(F.lit("/gpu"), F.coalesce(F.col("device_index").cast("string"), F.lit("?")))
    source = F.concat_ws("-", F.substring("source_id", 1, 12), F.element_at(F.split("source_id", "-"), -1))
    return F.coalesce(
        F.col("device_uuid"),
        F.concat(F.col("node_id"), index),
        F.concat(F.lit("rank"), F.col("rank").cast("string"), index),
        F.concat(source, index),
    )
