"""The queries behind a timeline. Events are bounded in SQL: the longest of each track come, the rest as blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracelake.reports.sql import Query, columns, fetch, literal, names
from tracelake.reports.timeline.choose import MARGIN, NothingToShowError, chosen, job_window, step_label
from tracelake.reports.timeline.data import DeviceRow, EventRow, Mark, MergedRow, Rows, SampleRow, Source, Window
from tracelake.reports.timeline.events import SEEN, TRACK

MAX_EVENTS = 250_000
"""Events that a page keeps: even of random ones so many fit in 5 MB."""
MAX_BLOCKS = 40_000
MAX_SOURCES = 64
MAX_MARKS = 2_000
MAX_SAMPLES = 20_000
_AROUND_NS = 2_000_000_000
"""A reading so far outside still tells of the time inside."""
_METRICS = ("cpu_util_ratio", "cpu_iowait_ratio", "memory_used")


def timeline_rows(
    query: Query, job_id: str, attempt: int | None = None, *, step: int | None = None, from_ns: int | None = None,
    to_ns: int | None = None, most: int = MAX_EVENTS,
) -> Rows:  # fmt: skip
    """Read a stretch of a job. Needs the tables as <layer>.<table>.

    Raises UnknownJobError or NothingToShowError, each with one clear line.
    """
    window, one = chosen(query, job_window(query, job_id, attempt), step=step, from_ns=from_ns, to_ns=to_ns)
    here = f"job_id = {literal(job_id)} AND attempt = {window.attempt}"
    if one is not None:
        window = _around_step(query, here, window, one.step_name, one.step_occurrence)
    every = _sources(query, here, window)
    sources = every[:MAX_SOURCES]
    if not sources:
        raise NothingToShowError(f"job {job_id}: nothing was recorded from {window.start_ns} to {window.end_ns} ns")
    seen = SEEN.format(here=here, sources=_values(sources), start=window.start_ns, end=window.end_ns)
    events, merged = _events(query, seen, window, most)
    ids = ", ".join(literal(s.source_id) for s in sources)
    device = f"SELECT {names(DeviceRow)} FROM normalized.devices WHERE {here} AND source_id IN ({ids})"
    return Rows(
        window=window,
        sources=sources,
        source_count=len(every),
        devices=fetch(query, DeviceRow, f"{device} ORDER BY source_id, device_index, device_id LIMIT 1000"),
        events=events,
        merged=merged,
        samples=_samples(query, here, window, sources),
        marks=_marks(query, here, window, one.step_name if one else None),
    )


# A source's times less its clock's offset are those of the reference. Within one stretch the offset does not change.
_ALIGNED = """
SELECT s.*, a.offset_ns + coalesce(CAST(round(a.drift_ppm * ({at} - a.origin_ns) / 1e6) AS BIGINT), 0) AS ahead_ns
FROM (SELECT * FROM normalized.sources WHERE {here} AND status <> 'superseded') s
LEFT JOIN (SELECT * FROM aggregates.clock_alignment WHERE {here}) a ON a.source_id = s.source_id
"""


def _around_step(query: Query, here: str, window: Window, name: str, occurrence: int) -> Window:
    """The step from its first start to its last end over ranks, on aligned clocks, with a margin."""
    steps = (
        f"SELECT source_id, start_ns, duration_ns FROM aggregates.step_ledger WHERE {here} AND status <> 'cut' "
        f"AND step_name = {literal(name)} AND step_occurrence = {occurrence}"
    )
    aligned = _ALIGNED.format(here=here, at=window.start_ns)
    sql = (
        "SELECT min(t.start_ns - coalesce(s.ahead_ns, 0)) AS start_ns, "
        f"max(t.start_ns + t.duration_ns - coalesce(s.ahead_ns, 0)) AS end_ns FROM ({steps}) t "
        f"JOIN ({aligned}) s ON s.source_id = t.source_id"
    )
    (row,) = query(sql)
    if row["start_ns"] is None:
        raise NothingToShowError(f"job {window.job_id}: the windows of {window.title} were superseded")
    margin = max(1_000, (row["end_ns"] - row["start_ns"]) // MARGIN)
    return replace(window, start_ns=row["start_ns"] - margin, end_ns=row["end_ns"] + margin)


def _sources(query: Query, here: str, window: Window) -> tuple[Source, ...]:
    """Processes that recorded then, the one in question first."""
    focus = window.focus_rank if window.focus_rank is not None else -1
    return fetch(
        query,
        Source,
        f"SELECT {names(Source)} FROM ({_ALIGNED.format(here=here, at=window.start_ns)}) "
        f"WHERE window_start_ns - coalesce(ahead_ns, 0) < {window.end_ns} "
        f"AND window_end_ns - coalesce(ahead_ns, 0) > {window.start_ns} "
        f"ORDER BY coalesce(rank = {focus}, false) DESC, rank NULLS LAST, source_id LIMIT 100000",
    )


def _values(sources: Sequence[Source]) -> str:
    return ", ".join(f"({literal(s.source_id)}, {s.ahead_ns or 0}L)" for s in sources)


@dataclass(frozen=True, slots=True)
class _TrackCount:
    event_count: int


def _events(query: Query, seen: str, window: Window, most: int) -> tuple[tuple[EventRow, ...], tuple[MergedRow, ...]]:
    """All events, or of each track the longest and blocks of the others."""
    sizes = fetch(query, _TrackCount, f"{seen} SELECT count(*) AS event_count FROM seen GROUP BY {TRACK}")
    counts = [s.event_count for s in sizes]
    each = allowance(counts, most)
    ranked = f"SELECT *, row_number() OVER (PARTITION BY {TRACK} ORDER BY end_ns - start_ns DESC, start_ns, event_id)"
    kept = "seen" if sum(counts) <= most else f"(SELECT * FROM ({ranked} AS place FROM seen) WHERE place <= {each})"
    events = fetch(query, EventRow, f"{seen} SELECT {', '.join(columns(EventRow))} FROM {kept}")
    if sum(counts) <= most:
        return events, ()
    width = max(1, (window.end_ns - window.start_ns) * len(counts) // MAX_BLOCKS)
    where = "source_id, device_id, stream_id, thread_id"
    merged = fetch(
        query,
        MergedRow,
        f"{seen} SELECT {where}, max_by(kind, end_ns - start_ns) AS kind, min(start_ns) AS start_ns, "
        "max(end_ns) AS end_ns, count(*) AS event_count, sum(end_ns - start_ns) AS busy_ns "
        f"FROM ({ranked} AS place FROM seen) WHERE place > {each} "
        f"GROUP BY {TRACK}, (start_ns - {window.start_ns}) DIV {width} ORDER BY start_ns LIMIT {2 * MAX_BLOCKS}",
    )
    return events, merged


def allowance(counts: Sequence[int], most: int) -> int:
    """The largest n such that n of each track, or all where it has fewer, are at most `most` together.

    >>> allowance([10, 100, 1000], 130), allowance([3, 3], 2), allowance([], 5)
    (60, 1, 0)
    """
    left = most
    for number, size in enumerate(sorted(counts)):
        share = left // (len(counts) - number)
        if size > share:
            return share
        left -= size
    return max(counts, default=0)


def _samples(query: Query, here: str, window: Window, sources: Sequence[Source]) -> tuple[SampleRow, ...]:
    """Readings of the nodes; several processes of one node, and its cores, count as one."""
    ids = ", ".join(literal(s.source_id) for s in sources)
    metrics = ", ".join(map(literal, _METRICS))
    width = max(100_000_000, (window.end_ns - window.start_ns) // 500)
    return fetch(
        query,
        SampleRow,
        f"SELECT node_id, metric, min(unit) AS unit, min(aligned_ns) AS at_ns, "
        "avg(nanvl(value, CAST(NULL AS DOUBLE))) AS value "
        f"FROM (SELECT p.*, p.at_ns - s.ahead AS aligned_ns FROM normalized.samples p JOIN (VALUES {_values(sources)}) "
        f"AS s(source_id, ahead) ON s.source_id = p.source_id WHERE {here} AND p.source_id IN ({ids}) "
        f"AND entity_kind IN ('node', 'core') AND metric IN ({metrics})) "
        f"WHERE aligned_ns BETWEEN {window.start_ns - _AROUND_NS} AND {window.end_ns + _AROUND_NS} "
        f"GROUP BY node_id, metric, (aligned_ns - {window.start_ns}) DIV {width} "
        f"ORDER BY node_id, metric, at_ns LIMIT {MAX_SAMPLES}",
    )


@dataclass(frozen=True, slots=True)
class _MarkRow:
    step_name: str
    step_index: int | None
    step_occurrence: int
    start_ns: int
    end_ns: int
    kind: str | None
    cause: str | None
    guilty_rank: int | None


def _marks(query: Query, here: str, window: Window, name: str | None) -> tuple[Mark, ...]:
    """Steps that reach into the stretch, on aligned clocks; unusual ones with what is known of them."""
    only = f" AND step_name = {literal(name)}" if name is not None else ""
    steps = (
        "SELECT t.step_name, t.step_occurrence, max(t.step_index) AS step_index, "
        "min(t.start_ns - coalesce(s.ahead_ns, 0)) AS start_ns, "
        "max(t.start_ns + t.duration_ns - coalesce(s.ahead_ns, 0)) AS end_ns "
        f"FROM (SELECT * FROM aggregates.step_ledger WHERE {here}{only}) t "
        f"JOIN ({_ALIGNED.format(here=here, at=window.start_ns)}) s ON s.source_id = t.source_id "
        "GROUP BY t.step_name, t.step_occurrence"
    )
    found = fetch(
        query,
        _MarkRow,
        f"SELECT t.*, o.kind, o.cause, o.guilty_rank FROM ({steps}) t "
        f"LEFT JOIN (SELECT * FROM aggregates.outlier_steps WHERE {here}) o "
        "ON o.step_name = t.step_name AND o.step_occurrence = t.step_occurrence "
        f"WHERE t.end_ns > {window.start_ns} AND t.start_ns < {window.end_ns} ORDER BY t.start_ns LIMIT {MAX_MARKS}",
    )
    return tuple(map(_mark, found))


def _mark(row: _MarkRow) -> Mark:
    who = f", rank {row.guilty_rank}" if row.guilty_rank is not None else ""
    say = f"{(row.cause or '').replace('_', ' ')}{who}".strip(", ")
    label = step_label(row.step_name, row.step_index, row.step_occurrence)
    return Mark(label, row.start_ns, row.end_ns, row.kind, say)
