"""The pages of jobs, many with one Spark session: what a chunk of them needs is looked for once and read together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tracelake.schemas.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tracelake.pipelines.lake import Lake
    from tracelake.reports.checks import ChecksData
    from tracelake.reports.data import JobData, Query, UnknownJobError
    from tracelake.schemas.storage import Storage
    from tracelake.settings import Settings

CHUNK = 20
"""Jobs read together: what the driver holds of them at a time are their pages' rows, each list with its bound."""
_AT_ONCE = 3
"""Tables looked for at a time: each mostly waits for its log."""


def job_pages(
    settings: Settings, session: SparkSession, job_ids: Sequence[str], out: Path | None, *, attempt: int | None = None
) -> Iterator[tuple[str, str | Exception]]:
    """(job, where its page lies now, or why it has none) of each job, in order; that of its checks lies beside it.

    The latest attempt unless one is named. UnknownJobError says that the lake has no such job or attempt.
    """
    for start in range(0, len(job_ids), CHUNK):
        yield from _chunk(settings, session, job_ids[start : start + CHUNK], out, attempt)


def _chunk(
    settings: Settings, session: SparkSession, job_ids: Sequence[str], out: Path | None, attempt: int | None
) -> Iterator[tuple[str, str | Exception]]:
    try:
        read = _read(settings, session, job_ids, attempt)
    except Exception as error:  # noqa: BLE001 -- it is the answer for its job
        if len(job_ids) == 1:
            yield job_ids[0], error
            return
        # What cannot be read of one job must not take the others with it.
        for job_id in job_ids:
            yield from _chunk(settings, session, [job_id], out, attempt)
        return
    for job_id in job_ids:
        yield job_id, _written(settings, read[job_id], out)


def _read(
    settings: Settings, session: SparkSession, job_ids: Sequence[str], attempt: int | None
) -> dict[str, tuple[JobData, ChecksData] | UnknownJobError]:
    from tracelake.pipelines.lake import Lake
    from tracelake.reports.checks import checks_data
    from tracelake.reports.data import TABLES, TABLES_OF_ALL, UnknownJobError, choose, jobs_data
    from tracelake.reports.sql import literals

    lake, query = Lake(settings.storage), query_of(session)
    with _shown(lake, session, TABLES_OF_ALL, "true"):
        chosen = choose(query, job_ids, attempt)
        found = [each for each in chosen.values() if not isinstance(each, UnknownJobError)]
        needed = [*job_ids, *(each.before.job_id for each in found if each.before)]
        with _shown(lake, session, TABLES, f"job_id IN {literals(needed)}"):
            jobs = jobs_data(query, found)
            checks = checks_data(query, list(jobs.values()))
    return {
        job_id: each if isinstance(each, UnknownJobError) else (jobs[job_id], checks[job_id])
        for job_id, each in chosen.items()
    }


@contextmanager
def _shown(lake: Lake, session: SparkSession, names: Sequence[str], where: str) -> Iterator[None]:
    """Rows of tables as views with bare names, from files that are found once: each query would look for them again."""

    def show(name: str) -> None:
        lake.rows_now(session, name, where).createOrReplaceTempView(_bare(name))

    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(show, names))
        yield
    finally:
        # Other pages of the session read whole tables by these names.
        for name in names:
            session.catalog.dropTempView(_bare(name))


def _bare(name: str) -> str:
    return name.rpartition(".")[2]


def _written(
    settings: Settings, read: tuple[JobData, ChecksData] | UnknownJobError, out: Path | None
) -> str | Exception:
    from tracelake.reports.checks import checks_page
    from tracelake.reports.files import checks_file, job_file
    from tracelake.reports.job import job_page

    if not isinstance(read, tuple):
        return read
    data, checks = read
    job_id, made_ns = data.job.job_id, time.time_ns()
    try:
        # The job's page links that of the checks.
        pages = {
            checks_file(job_id): checks_page(checks, made_ns=made_ns),
            job_file(job_id): job_page(data, made_ns=made_ns, timeline=_timeline_of(settings, job_id, out)),
        }
        return write_pages(settings, out, pages)[job_file(job_id)]
    except Exception as error:  # noqa: BLE001 -- it is the answer for its job
        return error


def _timeline_of(settings: Settings, job_id: str, out: Path | None) -> str:
    """The address of the job's timeline from beside it, where one was made."""
    from tracelake.reports.files import href, timeline_file

    name = timeline_file(job_id)
    return href(name) if reports_folder(settings, out).size(name) is not None else ""


def reports_folder(settings: Settings, out: Path | None) -> Storage:
    return Folder(out) if out else settings.storage.below("reports")


def write_pages(settings: Settings, out: Path | None, pages: Mapping[str, str]) -> dict[str, str]:
    """Where each page lies now, by its file."""
    folder = reports_folder(settings, out)
    for name, html in pages.items():
        folder.write(name, html.encode(), "text/html; charset=utf-8")
    return {name: folder.url(name) for name in pages}


def query_of(session: SparkSession) -> Query:
    return lambda text: [row.asDict(recursive=True) for row in session.sql(text).collect()]
