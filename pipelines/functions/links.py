"""Which launch started which device event."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import SOURCE_KEY

_FIELDS = "struct<launch_id:bigint,start_ns:bigint,end_ns:bigint>"


def linked(events: DataFrame, launches: DataFrame) -> DataFrame:
    """Events with `launch`: (launch_id, start_ns, end_ns) of the launch that started each, NULL for an orphan.

    The link is (job, source, correlation id), so ids of two processes never meet; ids below 1 join nothing. Where an
    id came round again, an event belongs to the latest launch that starts no later; one that precedes all of them
    (a broken device clock) to the first. One row out per row in.
    """
    key = [*SOURCE_KEY, "correlation_id"]
    nothing = F.lit(None).cast(_FIELDS)
    asked = events.withColumn("at", F.col("start_ns")).withColumn("is_event", F.lit(True)).withColumn("mark", nothing)
    can_link = F.coalesce(F.col("correlation_id") > 0, F.lit(False))
    marks = launches.filter("correlation_id > 0").select(
        *key,
        F.col("start_ns").alias("at"),
        F.lit(False).alias("is_event"),
        F.struct("launch_id", "start_ns", "end_ns").cast(_FIELDS).alias("mark"),
    )
    by_id = Window.partitionBy(*key).orderBy("at", "is_event")
    so_far = by_id.rowsBetween(Window.unboundedPreceding, 0)
    after = by_id.rowsBetween(0, Window.unboundedFollowing)
    both = asked.filter(can_link).unionByName(marks, allowMissingColumns=True)
    found = both.withColumn(
        "launch", F.coalesce(F.last("mark", True).over(so_far), F.first("mark", True).over(after))
    ).filter("is_event")
    orphans = asked.filter(~can_link).withColumn("launch", nothing)
    return found.unionByName(orphans).drop("at", "is_event", "mark")
