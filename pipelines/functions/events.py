"""What kernels and memory operations share: their launch, and how long they waited after it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.links import linked
from tracelake.pipelines.functions.where import PLACE

_TOLD = (
    "launch_id", "start_ns", "end_ns", "step_name", "step_occurrence", "annotation_id", "first_event_start_ns"
)  # fmt: skip


def started_by(events: DataFrame, launches: DataFrame) -> DataFrame:
    """Events with launch_id, the step and annotation of the launch (late execution does not move them), and delays.

    launch_delay_ns and queue_delay_ns stand on the launch's first event only. A negative delay is NULL and flagged by
    `is_before_launch`: it is never clamped and never averaged. Both sides are keyed by `place`.
    """
    owned = linked(events, launches, [PLACE], _TOLD)
    is_first = F.col("is_first_of_launch") & (F.col("start_ns") == F.col("launch.first_event_start_ns"))
    delay = F.col("start_ns") - F.col("launch.start_ns")
    queue = F.greatest(F.col("start_ns") - F.col("launch.end_ns"), F.lit(0))
    named = ("launch_id", "step_name", "step_occurrence", "annotation_id")
    return owned.withColumns(
        {
            **{name: F.col(f"launch.{name}") for name in named},
            "is_before_launch": F.coalesce(delay < 0, F.lit(False)),
            "launch_delay_ns": F.when(is_first & (delay >= 0), delay),
            "queue_delay_ns": F.when(is_first & (delay >= 0), queue),
        }
    ).drop("launch", "is_first_of_launch")
