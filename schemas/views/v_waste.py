"""What a job's devices cost without computing."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, hours, of, ratio
from tracelake.schemas.model import Column, Type, View
from tracelake.schemas.normalized.jobs import TABLE as JOBS

VIEW = View(
    name="v_waste",
    comment="Device-hours of each attempt that went elsewhere than to compute. Windows that lost records say why.",
    reads=("normalized.jobs", "aggregates.job_summary", "aggregates.device_ledger"),
    columns=(
        JOB_ID,
        ATTEMPT,
        *of(JOBS, "project", "user", "family", "instance_type"),
        hours("device_hours", "Recorded time summed over devices: what the hours below divide."),
        hours("compute_hours", "With a compute kernel."),
        hours("exposed_comm_hours", "With communication and no compute."),
        hours("exposed_mem_hours", "With a copy or fill and no kernel."),
        hours("idle_hours", "With no device activity."),
        hours("wasted_hours", "Exposed communication, exposed memory and idle together."),
        ratio("wasted_ratio", "Share of the device-hours; NULL where no window has numbers."),
        hours("withheld_hours", "Recorded time whose numbers are withheld, in none of the above."),
        Column("withheld_reasons", Type.STRINGS, "Why; empty where nothing is withheld."),
    ),
    sql="""
WITH withheld AS (
  SELECT job_id, attempt, array_sort(collect_set(reason)) AS reasons
  FROM device_ledger WHERE scope = 'window' GROUP BY job_id, attempt
)
SELECT s.job_id, s.attempt, j.project, j.user, j.family, j.instance_type,
       s.device_time_ns / 3.6e12D AS device_hours, s.compute_ns / 3.6e12D AS compute_hours,
       s.exposed_comm_ns / 3.6e12D AS exposed_comm_hours,
       s.exposed_mem_ns / 3.6e12D AS exposed_mem_hours, s.idle_ns / 3.6e12D AS idle_hours,
       (s.device_time_ns - s.compute_ns) / 3.6e12D AS wasted_hours,
       (s.device_time_ns - s.compute_ns) / nullif(CAST(s.device_time_ns AS DOUBLE), 0) AS wasted_ratio,
       coalesce(s.withheld_ns, 0) / 3.6e12D AS withheld_hours, coalesce(w.reasons, array()) AS withheld_reasons
FROM job_summary s
JOIN jobs j ON j.job_id = s.job_id
LEFT JOIN withheld w ON w.job_id = s.job_id AND w.attempt = s.attempt
""",
)
