"""Statistics of durations, the same for every kind of event."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
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


def spread(events: DataFrame, keys: Sequence[str], column: str, name: str) -> DataFrame:
    """Per key: `<name>_count`, _sum, _mean, _min, _p50, _p99, _max of a column's values that are not NULL.

    The same as `durations`, for many events: equal values are counted first, which runs compiled, and what is left is
    ranked by its counts.
    """
    counts = events.filter(F.col(column).isNotNull()).groupBy(*keys, column).agg(F.count("*").alias("_times"))
    in_order = Window.partitionBy(*keys).orderBy(column).rowsBetween(Window.unboundedPreceding, 0)
    all_ = Window.partitionBy(*keys)
    ranked = counts.withColumns({"_rank": F.sum("_times").over(in_order), "_all": F.sum("_times").over(all_)})
    value, spent = F.col(column), F.col(column) * F.col("_times")
    return ranked.groupBy(*keys).agg(
        F.sum("_times").alias(f"{name}_count"),
        F.sum(spent).alias(f"{name}_sum"),
        (F.sum(spent) / F.sum("_times")).alias(f"{name}_mean"),
        F.min(value).alias(f"{name}_min"),
        *[
            F.min(F.when(F.col("_rank") >= F.ceil(F.col("_all") * share), value)).alias(f"{name}_{title}")
            for title, share in (("p50", 0.5), ("p99", 0.99))
        ],
        F.max(value).alias(f"{name}_max"),
    )


def duration_columns() -> list[Column]:
    """What `durations` gives, from the columns of `spread`."""
    return [
        F.col(f"duration_{each}").alias(f"duration_{each}_ns") for each in ("sum", "mean", "min", "p50", "p99", "max")
    ]
