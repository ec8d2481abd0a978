"""What the page of runs needs, from the ledgers of operations; each list is bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracelake.reports.sql import Query, fetch, names

MAX_RUNS = 200
DAYS = 30
MAX_JOBS = 3
"""Jobs that a run names; it counts them all."""
MAX_REASONS = 20
_DAY_NS = 86_400_000_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the pipeline; `failed_delivery_count` counts jobs whose figures it made and a tracker did not take."""

    run_id: str
    command: str
    status: str
    error: str | None
    started_ns: int
    ended_ns: int
    jobs: Sequence[str]
    job_count: int
    source_count: int
    rows_read_count: int
    rows_stored_count: int
    rows_quarantined_count: int
    rows_deduplicated_count: int
    rows_skipped_count: int
    seconds: Mapping[str, str]
    checks: Mapping[str, str]
    failed_delivery_count: int

    @property
    def duration_ns(self) -> int:
        return self.ended_ns - self.started_ns


@dataclass(frozen=True, slots=True)
class DayOfRuns:
    """A UTC day's runs that ended with one status."""

    day: str
    status: str
    run_count: int
    duration_ns: int
    rows_stored_count: int
    rows_quarantined_count: int
    rows_deduplicated_count: int
    rows_skipped_count: int


@dataclass(frozen=True, slots=True)
class FailedDeliveries:
    """Jobs that wait for a tracker to take their link, by what it said last."""

    target: str
    reason: str | None
    job_count: int
    most_try_count: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class RunsData:
    """Everything on the page, as plain rows: runs newest first, days oldest first."""

    runs: tuple[Run, ...]
    days: tuple[DayOfRuns, ...]
    deliveries: tuple[FailedDeliveries, ...]
    last_success_ns: int | None


@dataclass(frozen=True, slots=True)
class _Success:
    ended_ns: int | None


def runs_data(query: Query) -> RunsData:
    """The last runs and days of the lake. Needs the lake's bare table names."""
    success = fetch(query, _Success, "SELECT max(ended_ns) AS ended_ns FROM runs WHERE status <> 'failed'")
    return RunsData(_runs(query), _days(query), _deliveries(query), success[0].ended_ns if success else None)


def _runs(query: Query) -> tuple[Run, ...]:
    of_ledger = names(Run, "r.", without=("jobs", "job_count", "failed_delivery_count"))
    failed = "SELECT run_id, count(*) AS failed_count FROM deliveries WHERE state = 'failed' GROUP BY run_id"
    return fetch(
        query,
        Run,
        f"SELECT {of_ledger}, slice(r.jobs, 1, {MAX_JOBS}) AS jobs, size(r.jobs) AS job_count, "
        "coalesce(d.failed_count, 0) AS failed_delivery_count "
        f"FROM (SELECT * FROM runs ORDER BY run_id DESC LIMIT {MAX_RUNS}) r LEFT JOIN ({failed}) d "
        f"ON d.run_id = r.run_id ORDER BY r.run_id DESC LIMIT {MAX_RUNS}",
    )


def _days(query: Query) -> tuple[DayOfRuns, ...]:
    counted = ("rows_stored_count", "rows_quarantined_count", "rows_deduplicated_count", "rows_skipped_count")
    sums = ", ".join(f"sum({name}) AS {name}" for name in counted)
    since = f"(SELECT max(started_ns) DIV {_DAY_NS} - {DAYS - 1} FROM runs)"
    return fetch(
        query,
        DayOfRuns,
        f"SELECT CAST(date_from_unix_date(CAST(started_ns DIV {_DAY_NS} AS INT)) AS STRING) AS day, status, "
        f"count(*) AS run_count, sum(ended_ns - started_ns) AS duration_ns, {sums} FROM runs "
        f"WHERE started_ns DIV {_DAY_NS} >= {since} GROUP BY day, status ORDER BY day, status LIMIT {3 * DAYS}",
    )


def _deliveries(query: Query) -> tuple[FailedDeliveries, ...]:
    return fetch(
        query,
        FailedDeliveries,
        "SELECT target, reason, count(*) AS job_count, max(try_count) AS most_try_count, max(tried_ns) AS last_ns "
        "FROM deliveries WHERE state = 'failed' GROUP BY target, reason "
        f"ORDER BY job_count DESC, target, reason LIMIT {MAX_REASONS}",
    )
