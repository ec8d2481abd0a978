"""Host calls by function: how often, how long, how far ahead of the device."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, count, duration, ns, text
from tracelake.schemas.model import Column, Table, Type, Unit

TABLE = Table(
    name="aggregates.launch_stats",
    grain="one row per function",
    reads=("normalized.launches", "normalized.kernels"),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("api_name", "Function that was called."),
        count("launch_count", "Calls."),
        count("kernel_count", "Kernels that they started."),
        count("producing_launch_count", "Calls that should produce a kernel."),
        count("covered_launch_count", "Those of them with at least one kernel."),
        count("short_kernel_count", "Kernels shorter than the call that launched them."),
        count("slow_launch_count", "Calls longer than 50 us."),
        count("long_delay_count", "First events that started over 100 us after the call with their stream free."),
        count("launch_delay_count", "Calls with a launch delay."),
        Column("launch_delay_mean_ns", Type.DOUBLE, "Mean launch delay.", Unit.NANOSECOND, nullable=True),
        ns("launch_delay_p50_ns", "Median launch delay.", nullable=True),
        ns("launch_delay_p99_ns", "99th percentile of launch delays.", nullable=True),
        ns("launch_delay_max_ns", "Longest launch delay.", nullable=True),
        count("before_launch_count", "Calls whose first event starts before them."),
        duration("duration_sum_ns", "Sum of durations; overlaps count twice."),
        Column("duration_mean_ns", Type.DOUBLE, "Mean duration.", Unit.NANOSECOND),
        duration("duration_min_ns", "Shortest duration."),
        duration("duration_p50_ns", "Median duration."),
        duration("duration_p99_ns", "99th percentile of durations."),
        duration("duration_max_ns", "Longest duration."),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "api_name"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
