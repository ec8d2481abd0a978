"""Instants of one clock on another's."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def drifted_ns(drift_ppm: Column, since_ns: Column) -> Column:
    """What a clock gains in a time, in whole nanoseconds; nothing where its drift is not known."""
    return F.coalesce(F.round(drift_ppm * since_ns.cast("double") / 1e6).cast("bigint"), F.lit(0))


def aligned(at_ns: Column, alignment: str) -> Column:
    """An instant on the reference clock, with the row of clock_alignment in the struct column of that name."""
    told = {name: F.col(f"{alignment}.{name}") for name in ("offset_ns", "drift_ppm", "origin_ns")}
    since = at_ns - F.coalesce(told["origin_ns"], at_ns)
    return at_ns - told["offset_ns"] - drifted_ns(told["drift_ppm"], since)
