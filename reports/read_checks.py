"""The queries behind the page of checks, each with its bound. `mine` is the condition that chooses the jobs."""

from __future__ import annotations

from tracelake.reports.record_rows import Checked, Publication, SetAside
from tracelake.reports.sql import ByJob, Query, by_job, rows_of, table

MAX_CHECKS = 2_000
MAX_REASONS = 500
UNCHECKED = Publication(False, ["the job was not checked yet"], 0, 0, 0, 0, 0)
"""A job that was never checked may not be published."""


def publications(query: Query, mine: str) -> ByJob[Publication]:
    """The verdicts on the jobs."""
    return by_job(query, Publication, rows_of(Publication, mine), "is_publishable", 1)


def checks(query: Query, mine: str, *, of_windows: bool) -> ByJob[Checked]:
    """Every check of the jobs as a whole, or those that single windows break."""
    which = f"{mine} AND source_id IS {'NOT ' if of_windows else ''}NULL"
    return by_job(query, Checked, rows_of(Checked, which), "table_name, kind, check_id, source_id", MAX_CHECKS)


def set_aside(query: Query, mine: str) -> ByJob[SetAside]:
    """Quarantine by kind and reason, the most rows first."""
    key = "job_id, kind, reason, remedy"
    return by_job(
        query,
        SetAside,
        f"SELECT {key}, count(*) AS entry_count, sum(rows_count) AS rows_count FROM {table(SetAside)} "
        f"WHERE {mine} GROUP BY {key}",
        "rows_count DESC NULLS FIRST, kind, reason, remedy",
        MAX_REASONS,
    )
