"""What monitoring asks of a lake: the last runs, what is open, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracelake import commands
from tracelake.commands import UserError
from tracelake.pages import query_of
from tracelake.reports.sql import Query, fetch, names
from tracelake.schemas.operations.checks import OUTCOMES
from tracelake.schemas.storage import Folder
from tracelake.settings import Settings

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_TABLES = ("operations.runs", "operations.publications", "operations.deliveries")
_STATUSES = ("succeeded", "incomplete", "failed")
_FATES = ("stored", "quarantined", "deduplicated", "skipped")
_USUAL_COUNT = 20
"""Runs before the last one whose median duration is the usual one."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a command, and the usual duration of those before it that took something in."""

    command: str
    status: str
    started_ns: int
    ended_ns: int
    job_count: int
    source_count: int
    rows_read_count: int
    rows_stored_count: int
    rows_quarantined_count: int
    rows_deduplicated_count: int
    rows_skipped_count: int
    seconds: Mapping[str, str]
    checks: Mapping[str, str]
    success_ns: int | None
    usual_ns: float | None


@dataclass(frozen=True, slots=True)
class RunCount:
    command: str
    status: str
    run_count: int
    rows_stored_count: int
    rows_quarantined_count: int
    rows_deduplicated_count: int
    rows_skipped_count: int


@dataclass(frozen=True, slots=True)
class Target:
    target: str
    failed_count: int


@dataclass(frozen=True, slots=True)
class Verdicts:
    job_count: int
    unpublishable_count: int


@dataclass(frozen=True)
class Facts:
    """All that is exported, as plain rows."""

    lake: str
    last: tuple[LastRun, ...]
    counts: tuple[RunCount, ...]
    targets: tuple[Target, ...]
    verdicts: Verdicts
    due_count: int
    """Jobs whose page is older than their tables."""


def metrics(settings: Settings, out: Path | None) -> str:
    """The text; written to `out` too, as a whole or not at all. Raises UserError without the client or a lake."""
    try:
        import prometheus_client  # noqa: F401 -- asked before Spark starts
    except ModuleNotFoundError:
        raise UserError("prometheus_client is not installed; install tracelake[metrics]") from None
    commands._check_job(settings, None)
    told = text(_read(settings))
    if out:
        Folder(out.parent).write(out.name, told.encode())
    return told


def _read(settings: Settings) -> Facts:
    from tracelake.due import due

    lake = commands.lake_of(settings)
    with commands._session(settings, "metrics") as session:
        for name in _TABLES:
            lake.read(session, name).createOrReplaceTempView(name.rpartition(".")[2])
        return facts(query_of(session), lake.name, len(due(lake, session).jobs))


def facts(query: Query, lake: str, due_count: int) -> Facts:
    """Needs the bare names of the tables of operations."""
    of_ledger = names(LastRun, "r.", without=("job_count", "success_ns", "usual_ns"))
    placed = "SELECT *, row_number() OVER (PARTITION BY command ORDER BY run_id DESC) AS place FROM runs"
    before = (
        "SELECT *, row_number() OVER (PARTITION BY command ORDER BY run_id DESC) AS back FROM placed "
        "WHERE place > 1 AND status <> 'failed' AND source_count > 0"
    )
    last = fetch(
        query,
        LastRun,
        f"WITH placed AS ({placed}), before AS ({before}), "
        "usual AS (SELECT command, percentile(ended_ns - started_ns, 0.5D) AS usual_ns FROM before "
        f"WHERE back <= {_USUAL_COUNT} GROUP BY command), "
        "good AS (SELECT command, max(ended_ns) AS success_ns FROM runs WHERE status <> 'failed' GROUP BY command) "
        f"SELECT {of_ledger}, size(r.jobs) AS job_count, g.success_ns, u.usual_ns FROM placed r "
        "LEFT JOIN usual u ON u.command = r.command LEFT JOIN good g ON g.command = r.command "
        "WHERE r.place = 1 ORDER BY r.command",
    )
    sums = ", ".join(f"sum(rows_{fate}_count) AS rows_{fate}_count" for fate in _FATES)
    counts = fetch(
        query,
        RunCount,
        f"SELECT command, status, count(*) AS run_count, {sums} FROM runs GROUP BY command, status "
        "ORDER BY command, status",
    )
    targets = fetch(
        query,
        Target,
        "SELECT target, count_if(state = 'failed') AS failed_count FROM deliveries GROUP BY target ORDER BY target",
    )
    (verdicts,) = fetch(
        query,
        Verdicts,
        "SELECT count(*) AS job_count, count_if(NOT is_publishable) AS unpublishable_count FROM publications",
    )
    return Facts(lake, last, counts, targets, verdicts, due_count)


class _Collector:
    """What prometheus_client asks for its metrics."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterable[Metric]:
        yield from _of_last_runs(self._facts)
        yield from _of_all_runs(self._facts)
        yield from _of_lake(self._facts)


def text(facts: Facts) -> str:
    """In the text format of Prometheus."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(facts))
    return generate_latest(registry).decode()


_Values = Iterable[tuple[tuple[str, ...], float]]


def _gauge(facts: Facts, name: str, help_: str, labels: tuple[str, ...], values: _Values) -> GaugeMetricFamily:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(f"tracelake_{name}", help_, labels=("lake", *labels))
    for of_labels, value in values:
        family.add_metric((facts.lake, *of_labels), value)
    return family


def _counter(facts: Facts, name: str, help_: str, labels: tuple[str, ...], values: _Values) -> CounterMetricFamily:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(f"tracelake_{name}", help_, labels=("lake", *labels))
    for of_labels, value in values:
        family.add_metric((facts.lake, *of_labels), value)
    return family


def _of_last_runs(facts: Facts) -> Iterator[Metric]:
    last, by = facts.last, ("command",)
    for name, help_, values in (
        ("last_run_start_timestamp_seconds", "When the last run started, Unix time.",
         [((r.command,), r.started_ns / 1e9) for r in last]),
        ("last_run_duration_seconds", "How long the last run took.",
         [((r.command,), (r.ended_ns - r.started_ns) / 1e9) for r in last]),
        ("usual_run_duration_seconds",
         f"Median duration of the {_USUAL_COUNT} runs before the last one that took something in and did not fail.",
         [((r.command,), r.usual_ns / 1e9) for r in last if r.usual_ns is not None]),
        ("last_success_timestamp_seconds", "When the last run that did not fail ended, Unix time.",
         [((r.command,), r.success_ns / 1e9) for r in last if r.success_ns is not None]),
        ("last_run_windows", "Windows that the last run took in.", [((r.command,), r.source_count) for r in last]),
        ("last_run_jobs", "Jobs that the last run touched.", [((r.command,), r.job_count) for r in last]),
        ("last_run_rows_read", "Rows that the last run found.", [((r.command,), r.rows_read_count) for r in last]),
    ):  # fmt: skip
        yield _gauge(facts, name, help_, by, values)
    yield _gauge(
        facts, "last_run_status", "1 for how the last run ended, 0 for the others.", (*by, "status"),
        [((r.command, status), float(r.status == status)) for r in last for status in _STATUSES],
    )  # fmt: skip
    yield _gauge(
        facts, "last_run_stage_seconds", "Seconds of the last run by stage.", (*by, "stage"),
        [((r.command, stage), float(spent)) for r in last for stage, spent in sorted(r.seconds.items())],
    )  # fmt: skip
    yield _gauge(
        facts, "last_run_rows", "What became of the rows of the last run.", (*by, "fate"),
        [((r.command, fate), getattr(r, f"rows_{fate}_count")) for r in last for fate in _FATES],
    )  # fmt: skip
    yield _gauge(
        facts, "last_run_checks", "Checks of the last run by outcome.", (*by, "outcome"),
        [((r.command, outcome), float(r.checks.get(outcome, 0))) for r in last for outcome in OUTCOMES],
    )  # fmt: skip


def _of_all_runs(facts: Facts) -> Iterator[Metric]:
    yield _counter(
        facts, "runs", "Runs by how they ended.", ("command", "status"),
        [((each.command, each.status), each.run_count) for each in facts.counts],
    )  # fmt: skip
    yield _counter(
        facts, "rows", "What became of the rows of all runs.", ("fate",),
        [((fate,), sum(getattr(each, f"rows_{fate}_count") for each in facts.counts)) for fate in _FATES],
    )  # fmt: skip


def _of_lake(facts: Facts) -> Iterator[Metric]:
    for name, help_, value in (
        ("jobs", "Jobs that were checked.", facts.verdicts.job_count),
        ("unpublishable_jobs", "Jobs that may not be published.", facts.verdicts.unpublishable_count),
        ("jobs_due", "Jobs whose page is older than their tables.", facts.due_count),
    ):
        yield _gauge(facts, name, help_, (), [((), value)])
    yield _gauge(
        facts, "failed_deliveries", "Jobs whose link a tracker has not taken.", ("target",),
        [((each.target,), each.failed_count) for each in facts.targets],
    )  # fmt: skip
