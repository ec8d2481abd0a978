"""Devices that a window used."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tracelake.pipelines.functions.where import SOURCE_KEY, listed_devices, with_device, with_where


def devices(source: DataFrame, kernel: DataFrame, memop: DataFrame) -> DataFrame:
    """One row per window and device with a kernel, copy or fill; what the input says about it beside."""
    used = kernel.select(*SOURCE_KEY, "device_index").unionByName(memop.select(*SOURCE_KEY, "device_index")).distinct()
    placed = with_device(with_where(used, source), source)
    return placed.join(listed_devices(source), [*SOURCE_KEY, "device_index"], "left")
