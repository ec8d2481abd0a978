"""Findings in hours, with whose job it is."""

from tracelake.schemas.aggregates.findings import TABLE as FINDINGS
from tracelake.schemas.columns import hours, of
from tracelake.schemas.model import View
from tracelake.schemas.normalized.jobs import TABLE as JOBS

VIEW = View(
    name="v_findings",
    comment="What is wrong with each attempt, most device time at stake first. Lost hours of findings may overlap.",
    reads=("normalized.jobs", "aggregates.findings"),
    columns=(
        *of(FINDINGS, "job_id", "attempt", "finding_number"),
        *of(JOBS, "project", "user", "family", "instance_type"),
        *of(FINDINGS, "rule", "cause", "severity", "title", "remedy", "guilty_rank", "guilty_node_id"),
        *of(FINDINGS, "step_name", "step_count"),
        hours("lost_hours", "Device-hours at stake; NULL where none can be named."),
        *of(FINDINGS, "lost_ratio", "lost_cost", "confidence", "evidence"),
    ),
    sql="""
SELECT f.job_id, f.attempt, f.finding_number, j.project, j.user, j.family, j.instance_type, f.rule, f.cause, f.severity,
       f.title, f.remedy, f.guilty_rank, f.guilty_node_id, f.step_name, f.step_count,
       f.lost_ns / 3.6e12D AS lost_hours, f.lost_ratio, f.lost_cost, f.confidence, f.evidence
FROM findings f
JOIN jobs j ON j.job_id = f.job_id
""",
)
