"""Readings of resource metrics, in long form."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tracelake.pipelines.functions.where import with_where


def samples(source: DataFrame, sample: DataFrame) -> DataFrame:
    """Readings as recorded, with their window. The monotonic clock orders them, whatever the wall clock does."""
    return with_where(sample, source)
