"""Which launch started which device event."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import SOURCE_KEY

_TOLD = ("launch_id", "start_ns", "end_ns")


def linked(
    events: DataFrame, launches: DataFrame, key: Sequence[str] = SOURCE_KEY, told: Sequence[str] = _TOLD
) -> DataFrame:
    """Events with `launch`: what is `told` of the launch that started each, NULL for an orphan; `is_first_of_launch`.

    The link is (job, source, correlation id), so ids of two processes never meet; ids below 1 join nothing. Where an
    id came round again, an event belongs to the latest launch that starts no later; one that precedes all of them
    (a broken device clock) to the first. One row out per row in.
    """
    # An event without an id gets one of its own: together they would be one partition.
    id_ = F.when(F.col("correlation_id") > 0, F.col("correlation_id")).otherwise(-1 - F.col("event_id"))
    asked = events.withColumns({"id": id_, "at": F.col("start_ns"), "is_event": F.lit(True)})
    marks = launches.filter("correlation_id > 0").select(
        *key,
        F.col("correlation_id").alias("id"),
        F.col("start_ns").alias("at"),
        F.lit(False).alias("is_event"),
        F.struct(*told).alias("mark"),
    )
    by_id = Window.partitionBy(*key, "id").orderBy("at", "is_event", "event_id")
    so_far = by_id.rowsBetween(Window.unboundedPreceding, 0)
    whole = by_id.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    seen = asked.unionByName(marks, allowMissingColumns=True).withColumns(
        {
            "launch": F.coalesce(F.last("mark", True).over(so_far), F.first("mark", True).over(whole)),
            "event_number": F.count_if("is_event").over(so_far),
            "mark_number": F.count_if(~F.col("is_event")).over(so_far),
            "follows_mark": F.lag(~F.col("is_event")).over(by_id),
        }
    )
    # The first launch has the events before it too.
    is_first = (F.col("event_number") == 1) | (F.col("follows_mark") & (F.col("mark_number") > 1))
    return (
        seen.filter("is_event")
        .withColumn("is_first_of_launch", F.coalesce(is_first, F.lit(False)))
        .drop("id", "at", "is_event", "mark", "event_number", "mark_number", "follows_mark")
    )
