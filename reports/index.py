"""The list of jobs: search, filters by creation time and state, sorted, with utilization over time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from urllib.parse import quote

from tracelake.reports import format as f
from tracelake.reports.files import RUNS_FILE, job_file
from tracelake.reports.html import text
from tracelake.reports.names import label
from tracelake.reports.page import Page, foot, script_json
from tracelake.reports.sql import Query, fetch
from tracelake.reports.words import STATES, short_device

MAX_JOBS = 10_000
STRETCHES = 24
_FIELDS = (
    "state", "name", "href", "family", "user", "created", "duration", "duration_text", "devices", "levels", "active",
    "active_text", "high", "medium", "idle", "idle_text",
)  # fmt: skip
_HEAD = (
    ("State", "state", ""), ("Job", "name", ""), ("Family", "family", "x"), ("Created, UTC", "created", "x"),
    ("Duration", "duration", "num x"), ("Devices", "", "x"), ("GPU active over time", "", "x"),
    ("GPU active", "active", "num"), ("Findings", "high", "x"), ("Not computing", "idle", "num x"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexJob:
    """A job with the figures of its latest attempt; `levels` are the shares of active time, stretch by stretch."""

    job_id: str
    state: str
    project: str | None
    family: str | None
    user: str | None
    created_ns: int | None
    ended_ns: int | None
    device_count: int
    device_name: str | None
    gpu_active_ratio: float | None
    wasted_ns: int | None
    high_count: int
    medium_count: int
    levels: dict[int, float]


def index_data(query: Query) -> tuple[IndexJob, ...]:
    """The newest jobs of the lake, at most MAX_JOBS. Needs the lake's bare table names."""
    latest = "SELECT job_id, max(attempt) AS attempt FROM job_summary GROUP BY job_id"
    span = "greatest(s.ended_ns - s.started_ns, 1)"
    stretch = f"least({STRETCHES - 1}, greatest(0, (u.bucket_start_ns - s.started_ns) * {STRETCHES} DIV {span}))"
    return fetch(
        query,
        IndexJob,
        f"""
WITH shown AS (
  SELECT j.*, s.attempt, s.started_ns, s.ended_ns AS last_ns, s.device_count, s.gpu_active_ratio,
         s.device_time_ns - s.compute_ns AS wasted_ns
  FROM jobs j JOIN ({latest}) l ON l.job_id = j.job_id
  JOIN job_summary s ON s.job_id = l.job_id AND s.attempt = l.attempt
  ORDER BY j.created_ns DESC NULLS LAST, j.job_id LIMIT {MAX_JOBS}
),
stretches AS (
  SELECT s.job_id, CAST({stretch} AS INT) AS stretch, avg(u.value_ratio) AS ratio
  FROM (SELECT job_id, attempt, started_ns, last_ns AS ended_ns FROM shown) s
  JOIN utilization u ON u.job_id = s.job_id AND u.attempt = s.attempt
  WHERE u.entity_kind = 'device' AND u.metric = 'gpu_active_ratio' AND u.value_ratio IS NOT NULL
  GROUP BY s.job_id, CAST({stretch} AS INT)
),
lines AS (
  SELECT job_id, map_from_entries(collect_list(struct(stretch, ratio))) AS levels FROM stretches GROUP BY job_id
),
told AS (
  SELECT job_id, attempt, count_if(severity = 'warn' AND lost_ratio >= 0.1D) AS high_count,
         count_if(severity = 'warn' AND coalesce(lost_ratio, 0) < 0.1D) AS medium_count
  FROM findings GROUP BY job_id, attempt
),
named AS (SELECT job_id, max(name) AS device_name FROM devices GROUP BY job_id)
SELECT s.job_id, s.state, s.project, s.family, s.user, s.created_ns, coalesce(s.ended_ns, s.last_ns) AS ended_ns,
       s.device_count, n.device_name, s.gpu_active_ratio, s.wasted_ns, coalesce(t.high_count, 0) AS high_count,
       coalesce(t.medium_count, 0) AS medium_count, coalesce(l.levels, map()) AS levels
FROM shown s
LEFT JOIN lines l ON l.job_id = s.job_id
LEFT JOIN told t ON t.job_id = s.job_id AND t.attempt = s.attempt
LEFT JOIN named n ON n.job_id = s.job_id
ORDER BY s.created_ns DESC NULLS LAST, s.job_id LIMIT {MAX_JOBS}
""",
    )


def index_page(jobs: tuple[IndexJob, ...], *, made_ns: int) -> str:
    """The page as HTML. made_ns is the time that its foot states."""
    states = {name: (kind, words, _shape(kind)) for name, (kind, words) in STATES.items()}
    data = script_json({"fields": _FIELDS, "states": states, "rows": [_row(job) for job in jobs]})
    counts = Counter(job.state for job in jobs)
    boxes = "".join(
        f'<label class="btn"><input type="checkbox" checked data-state="{text(name)}"> {text(words)} '
        f'<span class="muted">{f.count(counts[name])}</span></label>'
        for name, (_, words) in STATES.items()
    )
    filters = (
        '<form class="filters" role="search"><input data-find type="search" placeholder="Search by name" '
        'aria-label="Search by job, family, project or user"><label class="muted">created, UTC '
        '<input data-from type="date" aria-label="from"> to <input data-to type="date" aria-label="to"></label>'
        f"{boxes}</form>"
    )
    head = "".join(_head(*each) for each in _HEAD)
    newest = f"; the newest {f.count(MAX_JOBS)}" if len(jobs) == MAX_JOBS else ""
    body = (
        '<div class="title"><h1>Jobs</h1><span class="muted"><span data-count></span>, newest first'
        f'{newest}</span></div>{filters}<section class="panel" aria-label="Jobs"><div class="tw">'
        f'<table id="jobs-table"><thead><tr>{head}</tr></thead><tbody></tbody></table></div>'
        '<button class="btn" type="button" data-more>More</button></section>'
        f'<script type="application/json" id="jobs">{data}</script>'
        + foot(f"made {f.utc(made_ns)}", "All times UTC.", "▲ findings of 10 % of the device time and more, ◆ of less.")
    )
    runs = f'<a class="btn" href="{RUNS_FILE}">Runs</a>'
    return Page("Jobs", ("Jobs",), (), body, {}, ("index.js",), runs).html()


def _head(words: str, column: str, kind: str) -> str:
    sort = ' aria-sort="descending"' if column == "created" else ""
    shown = f'<button type="button" class="sort" data-sort="{column}">{words}</button>' if column else words
    return f'<th scope="col"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}{sort}>{shown}</th>'


def _shape(kind: str) -> str:
    return {"warn": "tri", "bad": "tri", "off": "sq"}.get(kind, "")


def _row(job: IndexJob) -> list[object]:
    created, ended = job.created_ns, job.ended_ns
    length = ended - created if created is not None and ended is not None else None
    devices = f"{f.count(job.device_count)} × {short_device(job.device_name)}" if job.device_name else ""
    active, wasted = job.gpu_active_ratio, job.wasted_ns
    family = " / ".join(filter(None, (job.project, job.family)))
    lasted = f.duration(length) if length is not None else "unknown"
    return [
        job.state, label(job.job_id), quote(job_file(job.job_id)), family, job.user or "",
        created // 1_000_000_000 if created is not None else None, length, lasted,
        devices or f.plural(job.device_count, "device"),
        _levels(job.levels), active, f.percent(active) if active is not None else "unknown", job.high_count,
        job.medium_count, wasted, f.duration(wasted) if wasted is not None else "unknown",
    ]  # fmt: skip


def _levels(levels: dict[int, float]) -> str:
    """A letter per stretch, a to z from 0 to 1; empty where nothing was recorded.

    >>> _levels({0: 0.0, 1: 1.0})[:4]
    'az--'
    """
    if not levels:
        return ""
    return "".join(chr(97 + round(25 * levels[n])) if n in levels else "-" for n in range(STRETCHES))
