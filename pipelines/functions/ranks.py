"""Which window speaks for which rank."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import ATTEMPT_KEY


def with_clash(sources: DataFrame) -> DataFrame:
    """Windows of known ranks with is_clash: whether two windows of the attempt claim the rank at one time.

    Both are kept, and the rank counts as missing in numbers across ranks.
    """
    known = sources.filter("rank IS NOT NULL AND status <> 'superseded'")
    in_time = Window.partitionBy("job_id", "attempt", "rank").orderBy("window_start_ns", "source_id")
    reach = F.max("window_end_ns").over(in_time.rowsBetween(Window.unboundedPreceding, -1))
    overlaps = F.coalesce(reach > F.col("window_start_ns"), F.lit(False))
    whole = Window.partitionBy("job_id", "attempt", "rank")
    return known.withColumn("overlaps", overlaps).withColumn("is_clash", F.max("overlaps").over(whole)).drop("overlaps")


def world(sources: DataFrame) -> DataFrame:
    """Per attempt: ranks_seen_count, ranks_usable_count (those without a clash), world_size (NULL where unknown)."""
    claimed = with_clash(sources).groupBy("job_id", "attempt", "rank").agg(F.max("is_clash").alias("is_clash"))
    usable = F.count_if(~F.col("is_clash")).alias("ranks_usable_count")
    ranks = claimed.groupBy("job_id", "attempt").agg(F.count("*").alias("ranks_seen_count"), usable)
    sizes = sources.groupBy("job_id", "attempt").agg(F.max("world_size").cast("bigint").alias("world_size"))
    none = {name: F.coalesce(name, F.lit(0)) for name in ("ranks_seen_count", "ranks_usable_count")}
    return sizes.join(ranks, ATTEMPT_KEY, "left").withColumns(none)
