"""Which stretch of a job a timeline shows: the step asked for, else the worst outlier, else the median step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracelake.reports import format as f
from tracelake.reports.data import UnknownJobError
from tracelake.reports.sql import Query, fetch, literal
from tracelake.reports.timeline.data import Window
from tracelake.schemas.steps import INFERRED_STEP

MARGIN = 50
"""A step is shown with this part of its length before and behind it: device work ends after it."""


class NothingToShowError(LookupError):
    """The job has no such step, or nothing was recorded then; the text is one line."""


@dataclass(frozen=True, slots=True)
class _Step:
    step_name: str
    step_index: int | None
    step_occurrence: int
    duration_ns: int
    rank: int | None
    median_ns: int | None
    kind: str | None
    cause: str | None


def step_label(name: str, index: int | None, occurrence: int) -> str:
    """
    >>> step_label("ProfilerStep", 10, 3), step_label("train", None, 3)
    ('ProfilerStep 10', 'train, occurrence 3')
    """
    return f"{name} {index}" if index is not None else f"{name}, occurrence {occurrence}"


def job_window(query: Query, job_id: str, attempt: int | None) -> Window:
    """The whole recorded window of an attempt, the latest by default. Raises UnknownJobError."""
    given = f" AND s.attempt = {attempt}" if attempt is not None else ""
    sql = (
        "SELECT s.job_id, s.attempt, j.project, 'whole window' AS title, s.started_ns AS start_ns,"
        " s.ended_ns AS end_ns, NULL AS focus_rank, '' AS why"
        " FROM aggregates.job_summary s JOIN normalized.jobs j ON j.job_id = s.job_id"
        f" WHERE s.job_id = {literal(job_id)}{given} ORDER BY s.attempt DESC LIMIT 1"
    )
    found = fetch(query, Window, sql)
    if not found:
        raise UnknownJobError(f"no job {job_id}{f', attempt {attempt}' if attempt is not None else ''} in this lake")
    if found[0].start_ns is None or found[0].end_ns is None:
        raise NothingToShowError(f"job {job_id}: no event was recorded")
    return found[0]


def chosen(
    query: Query, whole: Window, *, step: int | None, from_ns: int | None, to_ns: int | None
) -> tuple[Window, _Step | None]:
    """The stretch, without its times where it is a step's. Raises NothingToShowError for a step that is not there."""
    if from_ns is not None or to_ns is not None:
        start, end = from_ns if from_ns is not None else whole.start_ns, to_ns if to_ns is not None else whole.end_ns
        if start >= end:
            raise NothingToShowError(f"--from-ns {start} is not before --to-ns {end}")
        title = f"{f.utc(start, digits=3)}, {f.duration(end - start)}".replace(f.NBSP, " ")
        return replace(whole, title=title, start_ns=start, end_ns=end, why="The stretch that was asked for."), None
    here = f"job_id = {literal(whole.job_id)} AND attempt = {whole.attempt}"
    found = _asked(query, here, step) if step is not None else _worst(query, here) or _median(query, here)
    if not found and step is not None:
        raise NothingToShowError(f"job {whole.job_id}, attempt {whole.attempt}: no complete step {step}")
    if not found:
        return replace(whole, why="The job has no complete step: this is all that was recorded."), None
    one = found[0]
    title = step_label(one.step_name, one.step_index, one.step_occurrence)
    return replace(whole, title=title, focus_rank=one.rank, why=_why(one, is_asked=step is not None)), one


def _why(step: _Step, *, is_asked: bool) -> str:
    took = f.duration(step.duration_ns)
    if step.kind == "slow" and step.median_ns:
        cause = f"; cause: {step.cause.replace('_', ' ')}" if step.cause else ""
        first = "A slow step" if is_asked else "The worst outlier"
        times = f"{f.three_digits(step.duration_ns / step.median_ns)} times the usual {f.duration(step.median_ns)}"
        return f"{first}: {took}, {times}{cause}."
    return f"{'The step that was asked for' if is_asked else 'The median step'}: {took}."


_OUTLIER = (
    "SELECT step_name, step_index, step_occurrence, duration_ns, guilty_rank AS rank, median_ns, kind, cause"
    " FROM aggregates.outlier_steps WHERE {here} AND kind = 'slow'"
)
# Each step on its slowest rank; of several kinds of step the one that takes most time.
_SLOWEST = (
    "SELECT step_name, step_occurrence, max(step_index) AS step_index, max(duration_ns) AS duration_ns,"
    " max_by(rank, struct(duration_ns, source_id)) AS rank FROM aggregates.step_ledger"
    " WHERE {here} AND status <> 'cut' GROUP BY step_name, step_occurrence"
)
_MAIN = (
    "SELECT step_name FROM ({slowest}) GROUP BY step_name"
    f" ORDER BY step_name = '{INFERRED_STEP}', sum(duration_ns) DESC, step_name LIMIT 1"
)


def _worst(query: Query, here: str) -> tuple[_Step, ...]:
    sql = f"{_OUTLIER.format(here=here)} ORDER BY excess_ns DESC, step_name, step_occurrence LIMIT 1"
    return fetch(query, _Step, sql)


def _median(query: Query, here: str) -> tuple[_Step, ...]:
    """The step in the middle of all, by its length."""
    slowest = _SLOWEST.format(here=here)
    order = "row_number() OVER (ORDER BY duration_ns, step_occurrence) AS place, count(*) OVER () AS step_count"
    return fetch(
        query,
        _Step,
        "SELECT *, CAST(NULL AS BIGINT) AS median_ns, CAST(NULL AS STRING) AS kind, CAST(NULL AS STRING) AS cause FROM"
        f" (SELECT *, {order} FROM ({slowest}) WHERE step_name = ({_MAIN.format(slowest=slowest)}))"
        " WHERE place = (step_count + 1) DIV 2",
    )


def _asked(query: Query, here: str, step: int) -> tuple[_Step, ...]:
    """The step of that number in its name, or of that occurrence where names have none."""
    slowest = _SLOWEST.format(here=here)
    return fetch(
        query,
        _Step,
        "SELECT s.*, o.median_ns, o.kind, o.cause FROM"
        f" (SELECT * FROM ({slowest}) WHERE coalesce(step_index, step_occurrence) = {step}"
        f" ORDER BY step_name = ({_MAIN.format(slowest=slowest)}) DESC, step_occurrence LIMIT 1) s"
        f" LEFT JOIN (SELECT * FROM aggregates.outlier_steps WHERE {here}) o"
        " ON o.step_name = s.step_name AND o.step_occurrence = s.step_occurrence",
    )
