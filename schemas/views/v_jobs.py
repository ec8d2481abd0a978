"""Jobs as people look for them."""

from tracelake.schemas.aggregates.job_summary import TABLE as SUMMARY
from tracelake.schemas.columns import ATTEMPT, JOB_ID, hours, instant, ms, of
from tracelake.schemas.model import View
from tracelake.schemas.normalized.jobs import TABLE as JOBS

VIEW = View(
    name="v_jobs",
    comment="Every job with the figures of its latest attempt.",
    reads=("normalized.jobs", "aggregates.job_summary"),
    columns=(
        JOB_ID,
        ATTEMPT,
        *of(JOBS, "attempt_count", "state", "project", "user", "family", "framework", "instance_type", "format"),
        *of(SUMMARY, "status", "reasons"),
        instant("started_utc", "Start of the attempt's first window."),
        instant("ended_utc", "End of the attempt's last window."),
        hours("wall_hours", "From that start to that end, gaps between windows included."),
        hours("device_hours", "Recorded time summed over devices; withheld windows are left out."),
        *of(SUMMARY, "node_count", "device_count", "ranks_seen_count", "ranks_expected_count"),
        *of(SUMMARY, "gpu_active_ratio", "kernel_busy_ratio", "comm_overlap_ratio", "launch_coverage_ratio"),
        *of(SUMMARY, "tensor_core_ratio", "cpu_util_ratio", "gpu_util_sampled_ratio", "step_count"),
        ms("step_median_ms", "Median over steps of the slowest rank's step time."),
        ms("step_max_ms", "Longest step of the slowest rank."),
        *of(SUMMARY, "kernel_count", "launch_count", "memop_count", "rows_quarantined_count"),
        *of(JOBS, "hyperparameters", "tags"),
    ),
    sql="""
SELECT j.job_id, s.attempt, j.attempt_count, j.state, j.project, j.user, j.family, j.framework, j.instance_type,
       j.format, s.status, s.reasons, timestamp_micros(s.started_ns DIV 1000) AS started_utc,
       timestamp_micros(s.ended_ns DIV 1000) AS ended_utc,
       (s.ended_ns - s.started_ns) / 3.6e12D AS wall_hours,
       s.device_time_ns / 3.6e12D AS device_hours, s.node_count, s.device_count, s.ranks_seen_count,
       s.ranks_expected_count, s.gpu_active_ratio, s.kernel_busy_ratio, s.comm_overlap_ratio,
       s.launch_coverage_ratio, s.tensor_core_ratio, s.cpu_util_ratio, s.gpu_util_sampled_ratio, s.step_count,
       s.step_median_ns / 1e6D AS step_median_ms, s.step_max_ns / 1e6D AS step_max_ms, s.kernel_count,
       s.launch_count, s.memop_count, s.rows_quarantined_count, j.hyperparameters, j.tags
FROM jobs j
JOIN (SELECT job_id, max(attempt) AS attempt FROM job_summary GROUP BY job_id) latest ON latest.job_id = j.job_id
JOIN job_summary s ON s.job_id = latest.job_id AND s.attempt = latest.attempt
""",
)
