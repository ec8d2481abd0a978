"""What the night's line of JSON says that people should know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracelake_dags.notify import Message

_MOST = 10
"""Lines of each kind; the pages have the rest."""


def message_of(done: Mapping[str, Any]) -> Message:
    """Checks that failed, jobs that may not be published, findings; without lines where there is nothing to tell."""
    kinds = (
        ("failed_checks", "failed_check_count", "checks failed", _check),
        ("unpublishable", "unpublishable_count", "jobs may not be published", _unpublishable),
        ("findings", "finding_count", "findings", _finding),
    )
    lines: list[str] = []
    titles = []
    for name, counted, words, line in kinds:
        rows, count = done.get(name) or (), done.get(counted) or 0
        if count:
            titles.append(f"{count:,} {words}")
            lines += [line(row) for row in rows[:_MOST]]
            lines += [f"… and {count - _MOST:,} more"] if count > _MOST else []
    if done.get("incomplete"):
        titles.append("input incomplete")
        lines.append(str(done["incomplete"]))
    day = f" of {done['day']}" if done.get("day") else ""
    jobs = len(done.get("jobs") or ())
    title = f"night{day}: {', '.join(titles) or 'nothing to tell'} ({done.get('windows', 0):,} windows, {jobs:,} jobs)"
    kept = ("day", "windows", "rows", "jobs", "checks", *(each for kind in kinds for each in kind[:2]))
    return Message("findings", title, tuple(lines), {name: done.get(name) for name in kept})


def _check(row: Mapping[str, Any]) -> str:
    why = f": {row['reason']}" if row.get("reason") else f", {row.get('failing_count')} rows"
    return f"check {row['check_id']} of {row['table_name']} {row['outcome']} for job {row['job_id']}{why}"


def _unpublishable(row: Mapping[str, Any]) -> str:
    return f"job {row['job_id']} may not be published: {'; '.join(row['reasons'])}"


def _finding(row: Mapping[str, Any]) -> str:
    share = f" ({row['lost_ratio']:.0%} of its device time)" if row.get("lost_ratio") is not None else ""
    return f"job {row['job_id']}: {row['title']}{share}"
