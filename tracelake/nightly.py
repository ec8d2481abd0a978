"""A night: take in what is new, make the pages that are older than the tables, publish. What the DAG calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tracelake import commands
from tracelake.commands import Progress
from tracelake.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tracelake.pipelines.lake import Lake

STAGES = ("run", "reports", "publish")
MAX_NAMED = 100
"""Most checks, jobs and findings that a summary names; it counts them all."""
HIGH_RATIO = 0.1
"""Share of the job's device time from which a finding is told to people: the ▲ of the list of jobs."""
_PAGES_AT_ONCE = 60
"""Pages between two notes in the ledger: what a night that is cut short makes again."""


@dataclass
class Night:
    """What a night, or a stage of it, did: the line that DAG and notifier read. Empty parts were not asked for."""

    day: str | None
    stages: tuple[str, ...]
    windows: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    incomplete: str | None = None
    jobs: list[str] = field(default_factory=list)
    """Jobs that changed since their page was made, whichever run touched them: a run that is tried again names those
    of its first try too."""
    checks: Mapping[str, int] = field(default_factory=dict)
    failed_checks: list[dict[str, Any]] = field(default_factory=list)
    failed_check_count: int = 0
    unpublishable: list[dict[str, Any]] = field(default_factory=list)
    unpublishable_count: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)
    finding_count: int = 0
    pages: list[str] = field(default_factory=list)
    failed_pages: list[dict[str, str]] = field(default_factory=list)
    deliveries: dict[str, Any] = field(default_factory=dict)
    """As tracelake.publish.Published."""

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.windows or self.jobs or self.pages or self.failed_pages or any(self.deliveries.values()))


def nightly(
    settings: Settings, *, day: str | None, stage: str | None, again: bool = False, progress: Progress
) -> Night:
    """The stages, or one of them, in one Spark session. Raises UserError where there is no lake.

    `day` limits what `run` takes in; `again` has it take in all of that, not only what is new. Pages and publication
    follow what changed, whatever the day: what a night that was cut short left, the next one makes.
    """
    commands._check_job(settings, None)
    night = Night(day, (stage,) if stage else STAGES)
    steps: dict[str, Callable[[Settings, SparkSession, Night, Progress], None]] = {
        "run": partial(_run, again=again),
        "reports": _reports,
        "publish": _publish,
    }
    with commands._session(settings, "nightly") as session:
        for number, name in enumerate(night.stages):
            steps[name](settings, session, night, _part(progress, number, len(night.stages)))
    return night


def _part(progress: Progress, number: int, count: int) -> Progress:
    return lambda now, share: progress(now, (number + share) / count)


def _run(settings: Settings, session: SparkSession, night: Night, progress: Progress, *, again: bool) -> None:
    from tracelake.due import due

    done = commands._run(settings, session, progress, day=night.day, again=again, command="nightly")
    night.windows, night.rows, night.refused = done.sources, done.rows, done.refused
    night.checks, night.incomplete = dict(done.checks), done.incomplete
    lake = commands.lake_of(settings)
    night.jobs = list(due(lake, session).jobs)
    _add_quality(lake, session, night)


def _add_quality(lake: Lake, session: SparkSession, night: Night) -> None:
    """What is wrong with the night's jobs: checks that failed, verdicts, findings that people are told of."""
    from pyspark.sql import functions as F

    from tracelake.pipelines.lake import one_of

    def told(table: str, where: str, *names: str, order: Sequence[Any]) -> tuple[list[dict[str, Any]], int]:
        rows = _latest(lake, session, table, one_of("job_id", night.jobs)).filter(where)
        some = rows.select(*names).orderBy(*order).limit(MAX_NAMED).collect()
        return [row.asDict() for row in some], len(some) if len(some) < MAX_NAMED else rows.count()

    failed = "severity = 'fail' AND outcome IN ('failed', 'error') AND source_id IS NULL"
    of_check = ("job_id", "table_name", "check_id", "outcome", "measured", "failing_count", "reason")
    night.failed_checks, night.failed_check_count = told("operations.checks", failed, *of_check, order=of_check[:3])
    night.unpublishable, night.unpublishable_count = told(
        "operations.publications", "NOT is_publishable", "job_id", "reasons", order=("job_id",)
    )
    high = f"severity = 'warn' AND lost_ratio >= {HIGH_RATIO}D"
    of_finding = ("job_id", "title", "remedy", "lost_ratio", "lost_ns", "lost_cost")
    most_first = (F.desc("lost_ns"), "job_id", "title")
    night.findings, night.finding_count = told("aggregates.findings", high, *of_finding, order=most_first)


def _latest(lake: Lake, session: SparkSession, name: str, where: str) -> DataFrame:
    """Rows of a table, those of a job's latest attempt where it tells attempts apart."""
    from pyspark.sql import functions as F

    rows = lake.read(session, name).filter(where)
    if "attempt" not in rows.columns:
        return rows
    attempts = lake.read(session, "aggregates.job_summary").filter(where)
    return rows.join(attempts.groupBy("job_id").agg(F.max("attempt").alias("attempt")), ["job_id", "attempt"])


def _reports(settings: Settings, session: SparkSession, night: Night, progress: Progress) -> None:
    """Pages of jobs, then of days, then the list of jobs, which links them. One that fails does not stop the others."""
    from tracelake.due import due, note_made
    from tracelake.pages import job_pages
    from tracelake.reports.files import INDEX_FILE, fleet_file, job_file

    lake = commands.lake_of(settings)
    asked = due(lake, session)
    if not night.jobs:
        night.jobs = list(asked.jobs)
    jobs = list(asked.jobs)
    for at in range(0, len(jobs), _PAGES_AT_ONCE):
        some = jobs[at : at + _PAGES_AT_ONCE]
        made = []
        for number, (job_id, page) in enumerate(job_pages(settings, session, some, None), at):
            progress(f"page of {job_id}", 0.9 * number / len(jobs))
            if _noted(night, f"job {job_id}", page):
                made.append((job_file(job_id), job_id, asked.jobs[job_id]))
        note_made(lake, session, made)
    if asked.days or asked.index:
        lake.register(session)
    days = [day for day, page in _fleet_pages(settings, session, asked.days) if _noted(night, f"fleet of {day}", page)]
    note_made(lake, session, [(fleet_file(day), None, asked.days[day]) for day in days])
    if asked.index and _noted(night, "list of jobs", _index(settings, session)):
        note_made(lake, session, [(INDEX_FILE, None, asked.index)])


def _noted(night: Night, what: str, page: str | Exception) -> bool:
    """Whether a page was made; why not is kept in the summary."""
    if isinstance(page, Exception):
        night.failed_pages.append({"page": what, "error": " ".join(str(page).split()) or type(page).__name__})
        return False
    night.pages.append(page)
    return True


def _fleet_pages(
    settings: Settings, session: SparkSession, days: Mapping[str, str]
) -> Iterator[tuple[str, str | Exception]]:
    from tracelake.pages import query_of
    from tracelake.reports.files import fleet_file
    from tracelake.reports.fleet import fleet_page
    from tracelake.reports.fleet_data import fleet_data

    def html(day: str) -> str:
        return fleet_page(fleet_data(query_of(session), day), made_ns=time.time_ns())

    for day in days:
        yield day, _made(settings, fleet_file(day), partial(html, day))


def _index(settings: Settings, session: SparkSession) -> str | Exception:
    from tracelake.pages import query_of
    from tracelake.reports.files import INDEX_FILE, RUNS_FILE
    from tracelake.reports.index import index_data, index_page
    from tracelake.reports.runs import runs_page
    from tracelake.reports.runs_data import runs_data

    def html() -> str:
        return index_page(index_data(query_of(session)), made_ns=time.time_ns())

    # The list links it.
    runs = _made(settings, RUNS_FILE, lambda: runs_page(runs_data(query_of(session)), made_ns=time.time_ns()))
    return runs if isinstance(runs, Exception) else _made(settings, INDEX_FILE, html)


def _made(settings: Settings, name: str, html: Callable[[], str]) -> str | Exception:
    """Where the page lies, or why it was not made."""
    from tracelake.pages import write_pages

    try:
        return write_pages(settings, None, {name: html()})[name]
    except Exception as error:  # noqa: BLE001 -- named in the summary, and the night ends with 1
        return error


def _publish(settings: Settings, session: SparkSession, night: Night, progress: Progress) -> None:
    from tracelake.publish import publish

    night.deliveries = asdict(publish(settings, session, progress=progress))
