"""Statistics of durations, the same for every kind of event."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def durations(column: str = "duration_ns") -> list[Column]:
    """Sum, mean, min, median, 99th percentile and max. Percentiles are values that occur (nearest rank), so exact."""
    return [
        F.sum(column).alias("duration_sum_ns"),
        F.avg(column).alias("duration_mean_ns"),
        F.min(column).alias("duration_min_ns"),
        nearest_rank(column, 0.5).alias("duration_p50_ns"),
        nearest_rank(column, 0.99).alias("duration_p99_ns"),
        F.max(column).alias("duration_max_ns"),
    ]


def nearest_rank(column: str, share: float) -> Column:
    """The smallest value that at least `share` of the values do not exceed."""
    return F.expr(f"CAST(percentile_disc({share}) WITHIN GROUP (ORDER BY `{column}`) AS bigint)")
