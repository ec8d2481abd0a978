"""The queries behind the page of checks, each with its bound."""

from __future__ import annotations

from tracelake.reports.record_rows import Checked, Publication, SetAside
from tracelake.reports.sql import Query, fetch, literal, names

MAX_CHECKS = 2_000
MAX_REASONS = 500


def publication(query: Query, job_id: str) -> Publication:
    """The verdict on a job; one that was never checked may not be published."""
    rows = fetch(
        query,
        Publication,
        f"SELECT {names(Publication)} FROM {Publication.TABLE} WHERE job_id = {literal(job_id)} LIMIT 1",
    )
    return rows[0] if rows else Publication(False, ["the job was not checked yet"], 0, 0, 0, 0, 0)


def checks(query: Query, job_id: str, *, of_windows: bool) -> tuple[Checked, ...]:
    """Every check of the job as a whole, or those that single windows break."""
    which = "IS NOT NULL" if of_windows else "IS NULL"
    return fetch(
        query,
        Checked,
        f"SELECT {names(Checked)} FROM {Checked.TABLE} WHERE job_id = {literal(job_id)} AND source_id {which} "
        f"ORDER BY table_name, kind, check_id, source_id LIMIT {MAX_CHECKS}",
    )


def set_aside(query: Query, job_id: str) -> tuple[SetAside, ...]:
    """Quarantine by kind and reason, the most rows first."""
    return fetch(
        query,
        SetAside,
        f"SELECT kind, reason, remedy, count(*) AS entry_count, sum(rows_count) AS rows_count FROM {SetAside.TABLE} "
        f"WHERE job_id = {literal(job_id)} GROUP BY kind, reason, remedy "
        f"ORDER BY rows_count DESC NULLS FIRST, kind, reason LIMIT {MAX_REASONS}",
    )
