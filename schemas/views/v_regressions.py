"""Each run against the runs of its family before it: slower, faster, the same, or nobody knows."""

from tracelake.schemas.columns import count, instant, length, ms, of, text
from tracelake.schemas.model import Unit, View
from tracelake.schemas.normalized.jobs import TABLE as JOBS

_RUNS = 20
"""Runs before it that a run is compared with; five at least."""


def _middle(values: str) -> str:
    """Median of a sorted array; NULL of an empty one."""
    low, high = (f"get({values}, CAST((size({values}){less}) DIV 2 AS INT))" for less in (" - 1", ""))
    return f"({low} + {high}) / 2D"


VIEW = View(
    name="v_regressions",
    comment="Median step time of each job against comparable runs before it: same family, machines, world size.",
    reads=("normalized.jobs", "aggregates.job_summary"),
    columns=(
        *of(JOBS, "job_id", "project", "family", "instance_type", "world_size"),
        instant("started_utc", "Start of the latest attempt's first window."),
        ms("step_median_ms", "Median step time of its latest attempt."),
        count("compared_count", "Comparable runs before it, the last 20 at most."),
        ms("usual_ms", "Median of their medians; NULL below five runs."),
        ms("tolerance_ms", "What it may differ by: 5 % of that, or 3 times 1.4826 MAD of their medians if more."),
        length("change_percent", "How much longer its steps take than theirs; below 0 for faster.", Unit.PERCENT),
        text(
            "verdict",
            "REGRESSION or IMPROVEMENT where it differs by more and the next run does too; MIXED where the next does "
            "not; INCONCLUSIVE without five runs before it or while the next is missing; else EQUIVALENT.",
        ),
    ),
    sql=f"""
WITH latest AS (
  SELECT job_id, max_by(struct(started_ns, step_median_ns), attempt) AS run FROM job_summary GROUP BY job_id
),
runs AS (
  SELECT j.job_id, j.project, j.family, j.instance_type, j.world_size, l.run.started_ns AS started_ns,
         l.run.step_median_ns AS median_ns,
         sort_array(collect_list(l.run.step_median_ns) OVER (
           PARTITION BY j.project, j.family, j.instance_type, j.world_size ORDER BY l.run.started_ns, j.job_id
           ROWS BETWEEN {_RUNS} PRECEDING AND 1 PRECEDING)) AS before
  FROM jobs j JOIN latest l ON l.job_id = j.job_id
  WHERE l.run.step_median_ns IS NOT NULL AND j.family IS NOT NULL
),
usual AS (
  SELECT *, size(before) AS compared, CASE WHEN size(before) >= 5 THEN
    {_middle("before")} END AS usual_ns
  FROM runs
),
spread AS (
  SELECT *, sort_array(transform(before, each -> abs(each - usual_ns))) AS off FROM usual
),
judged AS (
  SELECT *, greatest(0.05D * usual_ns,
                     3 * 1.4826D * {_middle("off")}) AS tolerance
  FROM spread
),
compared AS (
  SELECT *, CASE WHEN usual_ns IS NULL THEN NULL WHEN median_ns > usual_ns + tolerance THEN 1
                 WHEN median_ns < usual_ns - tolerance THEN -1 ELSE 0 END AS side,
         lead(median_ns) OVER (PARTITION BY project, family, instance_type, world_size
                               ORDER BY started_ns, job_id) AS next_ns
  FROM judged
)
SELECT job_id, project, family, instance_type, world_size, timestamp_micros(started_ns DIV 1000) AS started_utc,
       median_ns / 1e6D AS step_median_ms, CAST(compared AS BIGINT) AS compared_count, usual_ns / 1e6D AS usual_ms,
       CASE WHEN usual_ns IS NOT NULL THEN tolerance / 1e6D END AS tolerance_ms,
       100D * (median_ns - usual_ns) / usual_ns AS change_percent,
       CASE WHEN side IS NULL THEN 'INCONCLUSIVE' WHEN side = 0 THEN 'EQUIVALENT'
            WHEN next_ns IS NULL THEN 'INCONCLUSIVE'
            WHEN side = 1 THEN CASE WHEN next_ns > usual_ns + tolerance THEN 'REGRESSION' ELSE 'MIXED' END
            WHEN next_ns < usual_ns - tolerance THEN 'IMPROVEMENT' ELSE 'MIXED' END AS verdict
FROM compared
""",
)
