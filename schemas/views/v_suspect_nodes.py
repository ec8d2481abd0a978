"""Nodes that are guilty in several jobs: the hardware may be."""

from tracelake.schemas.columns import count, hours, instant, text
from tracelake.schemas.model import Column, Type, View

_DAYS, _JOBS = 7, 3
_SPAN_NS = _DAYS * 86_400 * 10**9

VIEW = View(
    name="v_suspect_nodes",
    comment=f"Nodes that findings name as guilty in at least {_JOBS} jobs within {_DAYS} days.",
    reads=("normalized.jobs", "aggregates.findings"),
    columns=(
        text("node_id", "Host name of the node."),
        count("job_count", f"Most jobs within {_DAYS} days in which it is the guilty one."),
        instant("first_utc", "Start of the first job in which it is."),
        instant("last_utc", "Start of the last."),
        Column("job_ids", Type.STRINGS, "The jobs, latest first, 20 at most."),
        Column("causes", Type.STRINGS, "What it is guilty of."),
        hours("lost_hours", "Device-hours at stake in those jobs."),
    ),
    sql=f"""
WITH guilty AS (
  SELECT f.guilty_node_id AS node_id, f.job_id, j.created_ns, sum(f.lost_ns) AS lost_ns, collect_set(f.cause) AS causes
  FROM findings f JOIN jobs j ON j.job_id = f.job_id
  WHERE f.guilty_node_id IS NOT NULL AND f.severity = 'warn' AND j.created_ns IS NOT NULL
  GROUP BY f.guilty_node_id, f.job_id, j.created_ns
),
counted AS (
  SELECT *, count(*) OVER (PARTITION BY node_id ORDER BY created_ns
                           RANGE BETWEEN {_SPAN_NS} PRECEDING AND CURRENT ROW) AS jobs_then
  FROM guilty
)
SELECT node_id, max(jobs_then) AS job_count, timestamp_micros(min(created_ns) DIV 1000) AS first_utc,
       timestamp_micros(max(created_ns) DIV 1000) AS last_utc,
       slice(transform(sort_array(collect_list(struct(created_ns, job_id)), false), each -> each.job_id), 1, 20)
         AS job_ids,
       array_sort(array_distinct(flatten(collect_list(causes)))) AS causes, sum(lost_ns) / 3.6e12D AS lost_hours
FROM counted GROUP BY node_id HAVING max(jobs_then) >= {_JOBS}
""",
)
