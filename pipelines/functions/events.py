"""What kernels and memory operations share: their launch, and how long they waited after it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.links import linked
from tracelake.pipelines.functions.where import SOURCE_KEY


def started_by(events: DataFrame, launches: DataFrame) -> DataFrame:
    """Events with launch_id and the step and annotation of the launch: late execution does not move them."""
    owned = linked(events, launches).withColumn("launch_id", F.col("launch.launch_id"))
    placed = launches.select(
        *SOURCE_KEY, "launch_id", "step_name", "step_occurrence", "annotation_id", "first_event_start_ns"
    )
    return owned.join(placed, [*SOURCE_KEY, "launch_id"], "left")


def delayed(events: DataFrame) -> DataFrame:
    """Events of `started_by` with launch_delay_ns and queue_delay_ns, on the launch's first event only.

    A negative delay is NULL and flagged by `is_before_launch`: it is never clamped and never averaged.
    """
    order = Window.partitionBy(*SOURCE_KEY, "launch_id").orderBy("start_ns", "event_id")
    is_first = (
        F.col("launch_id").isNotNull()
        & (F.col("start_ns") == F.col("first_event_start_ns"))
        & (F.row_number().over(order) == 1)
    )
    delay = F.col("start_ns") - F.col("launch.start_ns")
    queue = F.greatest(F.col("start_ns") - F.col("launch.end_ns"), F.lit(0))
    return (
        events.withColumn("is_first", is_first)
        .withColumn("is_before_launch", F.coalesce(delay < 0, F.lit(False)))
        .withColumn("launch_delay_ns", F.when(F.col("is_first") & (delay >= 0), delay))
        .withColumn("queue_delay_ns", F.when(F.col("is_first") & (delay >= 0), queue))
        .drop("first_event_start_ns")
    )
