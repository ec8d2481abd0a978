"""Rows of the fleet page. The field names are the names of the columns that its queries give."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Overview:
    """A day in numbers."""

    job_count: int
    node_count: int
    found_count: int


@dataclass(frozen=True, slots=True)
class CauseTime:
    """What a day's device time went to."""

    cause: str
    device_ns: int
    cost: float | None
    energy_kwh: float | None


@dataclass(frozen=True, slots=True)
class GroupTime:
    """The same for one project, user, family or machine type."""

    name: str | None
    cause: str
    device_ns: int


@dataclass(frozen=True, slots=True)
class DayTime:
    """The same for one of the last days, as an ISO date."""

    day: str
    cause: str
    device_ns: int


@dataclass(frozen=True, slots=True)
class Saving:
    """A finding of a job with time in the day."""

    job_id: str
    project: str | None
    family: str | None
    instance_type: str | None
    cause: str
    title: str
    remedy: str
    lost_ns: int
    lost_cost: float | None
    confidence: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """A job whose steps take longer or shorter than those of its family before it."""

    job_id: str
    project: str | None
    family: str | None
    verdict: str
    usual_ms: float
    step_median_ms: float
    change_percent: float


@dataclass(frozen=True, slots=True)
class SuspectNode:
    """A node that is guilty in several jobs."""

    node_id: str
    job_count: int
    causes: list[str]
    job_ids: list[str]
    lost_hours: float | None
