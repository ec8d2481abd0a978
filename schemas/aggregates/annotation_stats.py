"""Annotations by name: how often, how long, and the device time that they launched."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, count, duration, flag, text
from tracelake.schemas.model import Column, Table, Type, Unit

TABLE = Table(
    name="aggregates.annotation_stats",
    grain="one row per annotation name",
    reads=("normalized.annotations",),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("side", "Host ranges, or a tool's copies of them on devices."),
        text("name", "Name without a trailing number."),
        flag("is_step", "Whether it names training steps."),
        count("annotation_count", "Ranges."),
        count("open_count", "Ranges that were never closed."),
        duration(
            "gpu_exclusive_ns",
            "Device time of events whose launch has it innermost, summed over its ranges.",
            nullable=True,
        ),
        duration("gpu_time_ns", "The same with the ranges inside them.", nullable=True),
        duration("duration_sum_ns", "Sum of durations; overlaps count twice.", nullable=True),
        Column("duration_mean_ns", Type.DOUBLE, "Mean duration.", Unit.NANOSECOND, nullable=True),
        duration("duration_min_ns", "Shortest duration.", nullable=True),
        duration("duration_p50_ns", "Median duration.", nullable=True),
        duration("duration_p99_ns", "99th percentile of durations.", nullable=True),
        duration("duration_max_ns", "Longest duration.", nullable=True),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "side", "name"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
