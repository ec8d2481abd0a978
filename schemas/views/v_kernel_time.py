"""What kind of kernel the time goes to."""

from tracelake.schemas.aggregates.kernel_stats import TABLE as STATS
from tracelake.schemas.columns import count, hours, of, ratio
from tracelake.schemas.model import View

VIEW = View(
    name="v_kernel_time",
    comment="Kernel time of each attempt by class: sums of durations, so kernels that overlap count twice.",
    reads=("aggregates.kernel_stats",),
    columns=(
        *of(STATS, "job_id", "attempt", "kernel_class"),
        count("name_count", "Different kernels of the class."),
        *of(STATS, "kernel_count", "duration_sum_ns"),
        hours("duration_sum_hours", "The same in device-hours."),
        ratio("time_ratio", "Share of all kernel time of the attempt."),
    ),
    sql="""
SELECT job_id, attempt, kernel_class, count(*) AS name_count, sum(kernel_count) AS kernel_count,
       sum(duration_sum_ns) AS duration_sum_ns,
       sum(duration_sum_ns) / 3.6e12D AS duration_sum_hours,
       CAST(sum(duration_sum_ns) AS DOUBLE)
         / nullif(sum(sum(duration_sum_ns)) OVER (PARTITION BY job_id, attempt), 0) AS time_ratio
FROM kernel_stats
GROUP BY job_id, attempt, kernel_class
""",
)
