"""Copies and fills by kind: how often, how much, how long."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, count, duration, size, text
from tracelake.schemas.model import Column, Table, Type, Unit

TABLE = Table(
    name="aggregates.memop_stats",
    grain="one row per kind, direction and kind of host memory",
    reads=("normalized.memops",),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("kind", "Copy or fill."),
        text("direction", "Where from and to; NULL for fills.", nullable=True),
        text("memory_kind", "Kind of host memory; NULL where not said.", nullable=True),
        count("memop_count", "Operations."),
        count("sized_count", "Operations whose size is known."),
        size("sum_bytes", "Bytes moved or filled by those of known size.", nullable=True),
        size("p50_bytes", "Median size.", nullable=True),
        size("max_bytes", "Largest size.", nullable=True),
        duration("sized_duration_sum_ns", "Sum of durations of those of known size: what a rate divides by."),
        duration("duration_sum_ns", "Sum of durations; overlaps count twice."),
        Column("duration_mean_ns", Type.DOUBLE, "Mean duration.", Unit.NANOSECOND),
        duration("duration_min_ns", "Shortest duration."),
        duration("duration_p50_ns", "Median duration."),
        duration("duration_p99_ns", "99th percentile of durations."),
        duration("duration_max_ns", "Longest duration."),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "kind", "direction", "memory_kind"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
