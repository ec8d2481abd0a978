"""Kernels by name: how often, how long."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, count, duration, flag, text
from tracelake.schemas.model import Column, Table, Type, Unit

TABLE = Table(
    name="aggregates.kernel_stats",
    grain="one row per kernel name",
    reads=("normalized.kernels",),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("name", "Function name as the tool wrote it."),
        text("short_name", "Function name without its return type and template arguments."),
        text("kernel_class", "What kind of work it does."),
        text("precision", "Input type of its math, in most of its time."),
        text("precision_source", "What that precision rests on."),
        flag("is_tensor_core", "Whether it uses tensor or matrix cores."),
        count("kernel_count", "Executions."),
        count("precision_count", "Precisions that its executions have, unknown among them."),
        count("device_count", "Devices that ran it."),
        duration("duration_sum_ns", "Sum of durations; overlaps count twice."),
        Column("duration_mean_ns", Type.DOUBLE, "Mean duration.", Unit.NANOSECOND),
        duration("duration_min_ns", "Shortest duration."),
        duration("duration_p50_ns", "Median duration."),
        duration("duration_p99_ns", "99th percentile of durations."),
        duration("duration_max_ns", "Longest duration."),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "name"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
