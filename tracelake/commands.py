"""What the commands do, without the terminal: the place where recorder, pipelines and reports meet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tracelake.pages import job_pages, query_of, reports_folder, write_pages
from tracelake.schemas.storage import Folder, StorageFailed
from tracelake.settings import BadSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tracelake.pipelines.lake import Lake
    from tracelake.pipelines.runner import RunResult
    from tracelake.recorder.importers import Imported, ImportOptions, Trace

Progress = Callable[[str, float], None]
FACTS = ("project", "user", "family", "instance_type", "cloud_account", "cloud_region", "instance_id", "cloud_job_id")
ROW_FATES = ("stored", "quarantined", "deduplicated", "skipped")
JOBS_QUERY = """
SELECT j.job_id, s.attempt, j.state, s.status, timestamp_millis(s.started_ns DIV 1000000) AS started_utc,
       s.ranks_seen_count AS ranks, s.device_count AS devices, round(100 * s.gpu_active_ratio, 1) AS gpu_active_percent,
       s.step_count AS steps, round(s.step_median_ns / 1e6, 2) AS step_median_ms
FROM jobs j JOIN job_summary s USING (job_id) ORDER BY s.started_ns DESC
"""


class UserError(ValueError):
    """The command cannot be done as given; the text is one line with the remedy."""


def expected_errors() -> tuple[type[BaseException], ...]:
    """Errors whose text is meant for the user. Everything else is a fault of ours and keeps its traceback."""
    from tracelake.pipelines.jars import JarsMissing
    from tracelake.pipelines.lake import LakeUnusable
    from tracelake.pipelines.lease import LeaseRefused
    from tracelake.pipelines.session import NoSpark
    from tracelake.recorder.importers import ImportFailed
    from tracelake.schemas.manifest import BadManifest

    return (
        UserError, BadSettings, JarsMissing, LakeUnusable, LeaseRefused, NoSpark, ImportFailed, BadManifest,
        StorageFailed,
    )  # fmt: skip


def lake_of(settings: Settings) -> Lake:
    from tracelake.pipelines.lake import Lake

    return Lake(settings.storage, wait_seconds=settings.wait_seconds)


def import_options(
    job_id: str,
    attempt: int,
    node: str | None,
    rank: int | None,
    tags: Sequence[str],
    facts: Sequence[str],
    operators: bool,
) -> ImportOptions:
    """Options from the command line. Raises UserError naming what is wrong."""
    from tracelake.recorder.importers import ImportOptions

    if not job_id.strip():
        raise UserError("--job is empty; give the job a name")
    pairs = {"--tag": tags, "--fact": facts}
    parsed: dict[str, dict[str, str]] = {}
    for option, given in pairs.items():
        for each in given:
            key, equals, value = each.partition("=")
            if not equals or not key or (option == "--fact" and key not in FACTS):
                known = f"; facts are {', '.join(FACTS)}" if option == "--fact" else ""
                raise UserError(f"{option} {each}: write key=value{known}")
            parsed.setdefault(option, {})[key] = value
    return ImportOptions(job_id, attempt, node, rank, operators, parsed.get("--tag", {}), parsed.get("--fact", {}))


def import_traces(
    settings: Settings, paths: Sequence[str], options: ImportOptions, *, spark: bool, progress: Progress
) -> tuple[list[Imported], list[tuple[str, str]]]:
    """(imported, failed with reasons). Raises ImportFailed where the paths name no trace, LakeUnusable."""
    from tracelake.recorder.importers import Imported, ImportFailed, find, import_all

    files = find(paths, settings.s3)
    if options.rank is not None and len(files) > 1:
        raise ImportFailed(f"--rank is for one file, and {len(files)} are given; import them one by one")
    lake_of(settings).check_writable()
    if spark:
        outcomes = _import_on_spark(settings, files, options)
    else:
        outcomes = list(import_all(files, settings.storage, options, progress))
    done = [outcome for outcome in outcomes if isinstance(outcome, Imported)]
    failed = [outcome for outcome in outcomes if not isinstance(outcome, Imported)]
    return done, failed


def _import_on_spark(settings: Settings, files: Sequence[Trace], options: ImportOptions) -> list[Any]:
    """One Spark task per file, for sets that one machine should not read alone. The lake must be shared."""
    from tracelake.recorder.importers import import_one

    lake = settings.storage
    if isinstance(lake, Folder):
        lake = Folder(lake.root.absolute())
    with _session(settings, "import") as session:
        spread = session.sparkContext.parallelize([_whole(file) for file in files], len(files))
        return list(spread.map(lambda file: import_one(file, lake, options)).collect())


def _whole(file: Trace) -> Trace:
    return file.absolute() if isinstance(file, Path) else file


@contextmanager
def _session(settings: Settings, name: str) -> Iterator[SparkSession]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from tracelake.pipelines.s3a import s3a_settings, trouble
    from tracelake.pipelines.session import spark_session

    session = spark_session(name, {**s3a_settings(settings.storage), **settings.spark})
    try:
        yield session
    except (Py4JError, PySparkException) as error:
        if told := trouble(error):
            raise StorageFailed(f"{settings.storage.name}: {told}") from error
        raise
    finally:
        session.stop()


def _run(settings: Settings, session: SparkSession, progress: Progress, **only: Any) -> RunResult:
    from tracelake.pipelines.parameters import Parameters
    from tracelake.pipelines.runner import run as run_pipeline

    try:
        parameters = Parameters.from_mapping(settings.parameters)
    except (ValueError, TypeError) as error:
        raise UserError(f"[parameters]: {error}") from error
    return run_pipeline(lake_of(settings), session, parameters=parameters, progress=progress, **only)


def run(
    settings: Settings, *, job_id: str | None, day: str | None, progress: Progress, again: bool = False
) -> RunResult:
    """Take in what is new, or all, `again`. Raises UserError for a job or lake that is not there."""
    _check_job(settings, job_id)
    command = "backfill" if again else "run"
    with _session(settings, command) as session:
        return _run(settings, session, progress, job_id=job_id, day=day, again=again, command=command)


def _check_job(settings: Settings, job_id: str | None) -> None:
    from tracelake.schemas.manifest import manifest_keys

    lake = lake_of(settings)
    if not lake.storage.holds("raw"):
        raise UserError(f"{lake.name}: no lake here; import traces first, or give --lake")
    if job_id is not None and not manifest_keys(lake.raw, job_id):
        known = sorted({unquote(key.split("/")[2].partition("=")[2]) for key in manifest_keys(lake.raw)})
        named = ", ".join(known[:5]) + (", …" if len(known) > 5 else "")
        raise UserError(f"no job {job_id} in {lake.name}; there are {named or 'none'}")


def report(
    settings: Settings, job_id: str, *, attempt: int | None, out: Path | None, progress: Progress
) -> tuple[str, dict[str, float]]:
    """(page, seconds by stage) of one job, with one Spark session. Raises UserError for an unknown job."""
    _check_job(settings, job_id)
    seconds: dict[str, float] = {}
    clock = time.monotonic()
    with _session(settings, "report") as session:
        seconds["Spark start"] = time.monotonic() - clock
        done = _run(settings, session, progress, job_id=job_id, command="report")
        seconds.update(done.seconds)
        clock = time.monotonic()
        ((_, page),) = job_pages(settings, session, [job_id], out, attempt=attempt)
        seconds["pages"] = time.monotonic() - clock
        return _told(page), seconds


def _told(page: str | Exception) -> str:
    """The page. Raises UserError for a job that is not there, or what went wrong with it."""
    from tracelake.reports.data import UnknownJobError

    if isinstance(page, UnknownJobError):
        raise UserError(str(page)) from page
    if isinstance(page, Exception):
        raise page
    return page


def fleet(settings: Settings, *, day: str | None, out: Path | None, progress: Progress) -> tuple[str, dict[str, float]]:
    """(page, seconds by stage) of one day's fleet, the last by default. Raises UserError without device time."""
    from tracelake.reports.files import fleet_file
    from tracelake.reports.fleet import fleet_page
    from tracelake.reports.fleet_data import NoDayError, fleet_data

    def made(session: SparkSession) -> dict[str, str]:
        try:
            data = fleet_data(query_of(session), day)
        except NoDayError as error:
            raise UserError(f"{lake_of(settings).name}: {error}") from error
        return {fleet_file(data.day): fleet_page(data, made_ns=time.time_ns())}

    return _page_of_all(settings, made, out, progress)


def index(settings: Settings, *, out: Path | None, progress: Progress) -> tuple[str, dict[str, float]]:
    """(page, seconds by stage) of the list of jobs. The page of runs, which it links, lies beside it."""
    from tracelake.reports.files import INDEX_FILE, RUNS_FILE
    from tracelake.reports.index import index_data, index_page
    from tracelake.reports.runs import runs_page
    from tracelake.reports.runs_data import runs_data

    def made(session: SparkSession) -> dict[str, str]:
        query, now = query_of(session), time.time_ns()
        return {
            RUNS_FILE: runs_page(runs_data(query), made_ns=now),
            INDEX_FILE: index_page(index_data(query), made_ns=now),
        }

    return _page_of_all(settings, made, out, progress)


def _page_of_all(
    settings: Settings, made: Callable[[SparkSession], dict[str, str]], out: Path | None, progress: Progress
) -> tuple[str, dict[str, float]]:
    """Take in what is new and write a page about all jobs; `made` gives files and their HTML, from the lake's views.

    The page is the last of them.
    """
    _check_job(settings, None)
    with _session(settings, "report") as session:
        done = _run(settings, session, progress, command="report")
        clock = time.monotonic()
        lake_of(settings).register(session)
        pages = made(session)
    page = list(write_pages(settings, out, pages).values())[-1]
    return page, {**done.seconds, "page": time.monotonic() - clock}


@dataclass(frozen=True, slots=True)
class Stretch:
    """What part of a job a timeline shows: a step, or from one instant to another; the default is a telling step."""

    attempt: int | None = None
    step: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None

    @property
    def part(self) -> str:
        """For the name of its file."""
        if self.step is not None:
            return f"step-{self.step}"
        asked = self.from_ns is not None or self.to_ns is not None
        return f"{self.from_ns or ''}-{self.to_ns or ''}" if asked else ""


def timeline(
    settings: Settings, job_id: str, stretch: Stretch, *, format_: str, out: Path | None, progress: Progress
) -> tuple[str, dict[str, float]]:
    """(file, seconds by stage) of a stretch of a job, event by event. Raises UserError for one that is not there."""
    from tracelake.reports.data import UnknownJobError
    from tracelake.reports.files import timeline_file
    from tracelake.reports.timeline.choose import NothingToShowError
    from tracelake.reports.timeline.page import timeline_page
    from tracelake.reports.timeline.perfetto import perfetto
    from tracelake.reports.timeline.read import timeline_rows

    _check_job(settings, job_id)
    with _session(settings, "timeline") as session:
        done = _run(settings, session, progress, job_id=job_id, command="timeline")
        clock = time.monotonic()
        lake_of(settings).register_tables(session)
        try:
            rows = timeline_rows(query_of(session), job_id, **asdict(stretch))
        except (UnknownJobError, NothingToShowError) as error:
            raise UserError(str(error)) from error
    name = timeline_file(job_id, stretch.part, format_)
    folder = reports_folder(settings, out)
    if format_ == "perfetto":
        folder.write(name, perfetto(rows), "application/gzip")
    else:
        folder.write(name, timeline_page(rows, made_ns=time.time_ns()).encode(), "text/html; charset=utf-8")
    return folder.url(name), {**done.seconds, "timeline": time.monotonic() - clock}


def sql(settings: Settings, query: str, *, limit: int = 1000) -> tuple[list[str], list[tuple[Any, ...]]]:
    """(column names, rows) of a query. Raises UserError where Spark refuses it."""
    from pyspark.errors import PySparkException

    _check_job(settings, None)
    with _session(settings, "sql") as session:
        lake_of(settings).register(session)
        try:
            answer = session.sql(query)
            return answer.columns, [tuple(row) for row in answer.limit(limit).collect()]
        except PySparkException as error:
            raise UserError(f"Spark cannot answer that: {str(error).splitlines()[0]}") from error


def demo(settings: Settings, *, seed: int, scale: float, progress: Progress) -> list[tuple[str, str]]:
    """(job, page) of every job of a simulated fleet."""
    from tracelake.recorder.segments import local_lake
    from tracelake.recorder.simulate import simulate_fleet

    lake_of(settings).check_writable()
    progress("simulating a fleet", 0.02)
    with local_lake(settings.storage) as folder:
        truth = simulate_fleet(folder, seed=seed, scale=scale)
    with _session(settings, "demo") as session:
        _run(settings, session, lambda now, share: progress(now, 0.05 + 0.75 * share), command="demo")
        progress("pages", 0.8)
        made = job_pages(settings, session, [job.job_id for job in truth.jobs], None)
        return [(job_id, _told(page)) for job_id, page in made]
