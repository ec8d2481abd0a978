"""How much of what a job was given went into steps that count."""

from tracelake.schemas.columns import JOB_ID, REASON, count, duration, of, ratio
from tracelake.schemas.model import View
from tracelake.schemas.normalized.jobs import TABLE as JOBS

UNKNOWN_MAX_RATIO = 0.1
"""Of more of the allocation than this unknown, a ratio of the rest says little about the job: there is none."""

_PARTS = {
    "initialization": duration("initialization_ns", "Before the first step, and warm-up steps.", nullable=True),
    "checkpoint": duration("checkpoint_ns", "Idle while a checkpoint is saved or loaded.", nullable=True),
    "redone_steps": duration("redone_ns", "Steps whose work was lost: the next attempt did them again.", nullable=True),
    "outside_steps": duration(
        "outside_steps_ns", "After the first step and in none, and attempts without any step.", nullable=True
    ),
    "withheld": duration("withheld_ns", "Recorded, but the numbers are withheld.", nullable=True),
    "not_recorded": duration("not_recorded_ns", "Of the attempts' wall time, outside windows.", nullable=True),
}
"""By cause of fleet_daily: what is allocated and no goodput. Of the last two nobody knows whether they are."""

_AMOUNTS = {"goodput": "goodput_ns", "productive": "productive_ns", **{part: c.name for part, c in _PARTS.items()}}


def _of_cause(cause: str) -> str:
    return f"coalesce(sum(f.device_ns) FILTER (WHERE f.cause = '{cause}'), 0)"


VIEW = View(
    name="v_goodput",
    comment="Goodput of each job, all attempts together: device time inside steps that were not redone, and the rest.",
    reads=("normalized.jobs", "aggregates.job_summary", "aggregates.fleet_daily", "aggregates.findings"),
    columns=(
        JOB_ID,
        *of(JOBS, "project", "user", "family", "instance_type", "attempt_count"),
        count("restart_count", "Restarts, by the number of the last attempt; those never seen count.", nullable=True),
        duration("allocated_ns", "Devices times wall time of each attempt: goodput and the parts.", nullable=True),
        duration("goodput_ns", "Inside steps that count: compute, communication and idle alike.", nullable=True),
        duration("productive_ns", "Of the goodput, time in which a device computes.", nullable=True),
        *_PARTS.values(),
        duration("restart_gap_ns", "Wall time between attempts, in no allocation; NULL where unknown.", nullable=True),
        count("redone_step_count", "Steps that were redone; NULL where findings do not say.", nullable=True),
        ratio("unknown_ratio", "Share of the allocation that is withheld or not recorded."),
        ratio("goodput_ratio", "Goodput over the known part of the allocation; NULL with a reason."),
        ratio("productive_ratio", "Productive time over the known part of the allocation; NULL with a reason."),
        REASON,
    ),
    sql=f"""
WITH attempts AS (
  SELECT s.job_id, s.attempt, s.ended_ns, s.step_count > 0 AS has_steps, sum(f.device_ns) AS allocated,
         {_of_cause("productive")} AS productive,
         {", ".join(f"{_of_cause(cause)} AS {cause}" for cause in _PARTS)},
         lead(s.started_ns) OVER (PARTITION BY s.job_id ORDER BY s.attempt) - s.ended_ns AS gap_ns,
         lead(s.attempt) OVER (PARTITION BY s.job_id ORDER BY s.attempt) - s.attempt AS gap_attempts
  FROM job_summary s LEFT JOIN fleet_daily f ON f.job_id = s.job_id AND f.attempt = s.attempt
  GROUP BY s.job_id, s.attempt, s.started_ns, s.ended_ns, s.step_count
),
split AS (
  SELECT *, allocated - {" - ".join(_PARTS)} AS inside FROM attempts
),
sums AS (
  SELECT job_id, max(attempt) AS restart_count, count(allocated) AS known_attempts, sum(allocated) AS allocated_ns,
         sum(if(has_steps, inside, 0)) AS goodput, sum(if(has_steps, productive, 0)) AS productive,
         {", ".join(f"sum({cause}) AS {cause}" for cause in _PARTS if cause != "outside_steps")},
         sum(outside_steps + if(has_steps, 0, coalesce(inside, 0))) AS outside_steps, max(has_steps) AS has_steps,
         count_if(gap_attempts = 1 AND gap_ns >= 0) AS known_gaps, coalesce(sum(gap_ns), 0) AS gap_ns
  FROM split GROUP BY job_id
),
judged AS (
  SELECT *, allocated_ns - withheld - not_recorded AS known_ns,
         (withheld + not_recorded) / CAST(nullif(allocated_ns, 0) AS DOUBLE) AS unknown_ratio
  FROM sums
),
told AS (
  SELECT g.*, CASE
    WHEN coalesce(g.allocated_ns, 0) = 0 THEN 'no_allocation'
    WHEN g.known_attempts <= g.restart_count THEN 'attempt_missing'
    WHEN g.unknown_ratio > {UNKNOWN_MAX_RATIO}D
      THEN if(g.withheld > g.not_recorded, 'much_withheld', 'much_not_recorded')
    WHEN NOT g.has_steps THEN 'no_steps' END AS reason
  FROM judged g
),
redone AS (
  SELECT job_id, sum(step_count) AS steps FROM findings WHERE rule = 'redone_steps' GROUP BY job_id
)
SELECT j.job_id, j.project, j.user, j.family, j.instance_type, j.attempt_count,
       CAST(t.restart_count AS BIGINT) AS restart_count, t.allocated_ns,
       {", ".join(f"if(t.allocated_ns IS NULL, NULL, t.{part}) AS {name}" for part, name in _AMOUNTS.items())},
       CASE WHEN t.known_gaps = t.restart_count THEN t.gap_ns END AS restart_gap_ns,
       CASE WHEN t.redone_steps = 0 AND t.allocated_ns IS NOT NULL THEN 0 ELSE r.steps END AS redone_step_count,
       t.unknown_ratio,
       CASE WHEN t.reason IS NULL THEN t.goodput / CAST(t.known_ns AS DOUBLE) END AS goodput_ratio,
       CASE WHEN t.reason IS NULL THEN t.productive / CAST(t.known_ns AS DOUBLE) END AS productive_ratio,
       if(t.job_id IS NULL, 'no_allocation', t.reason) AS reason
FROM jobs j
LEFT JOIN told t ON t.job_id = j.job_id
LEFT JOIN redone r ON r.job_id = j.job_id
""",
)
