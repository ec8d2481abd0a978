"""Goodput of jobs, for their pages and the fleet's, and the query behind a job's."""

from __future__ import annotations

from dataclasses import dataclass

from tracelake.reports.sql import ByJob, Query, by_job, names
from tracelake.schemas.catalog import views


@dataclass(frozen=True, slots=True)
class Goodput:
    """All attempts of a job: what was allocated to it, and what that went to."""

    job_id: str
    attempt_count: int
    restart_count: int | None
    allocated_ns: int | None
    goodput_ns: int | None
    productive_ns: int | None
    initialization_ns: int | None
    checkpoint_ns: int | None
    redone_ns: int | None
    outside_steps_ns: int | None
    withheld_ns: int | None
    not_recorded_ns: int | None
    restart_gap_ns: int | None
    redone_step_count: int | None
    goodput_ratio: float | None
    productive_ratio: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class FleetGoodput:
    """Jobs of a day together: those with a goodput, whose reason is None, and those without by reason."""

    reason: str | None
    job_count: int
    restart_count: int | None
    known_ns: int | None
    goodput_ns: int | None
    productive_ns: int | None


def goodput(query: Query, mine: str) -> ByJob[Goodput]:
    """Needs the jobs' rows of all their attempts."""
    rows = f"SELECT {names(Goodput)} FROM ({views()['v_goodput'].sql}) WHERE {mine}"
    return by_job(query, Goodput, rows, "job_id", 1)
