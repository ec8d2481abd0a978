"""Steps that are not like the others: which, why, through whom, and what proves it."""

from __future__ import annotations

from tracelake.reports import format as f
from tracelake.reports.cause_rows import OutlierStep
from tracelake.reports.data import JobData
from tracelake.reports.html import pill, state, table, term, text, unknown
from tracelake.reports.names import label
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import count, time
from tracelake.reports.read_causes import MAX_OUTLIERS
from tracelake.reports.words import CAUSE_WORDS, reason

_TITLE = "Outlier steps"
_DEFINITION = '<a class="btn" href="#def-outlier-step">Definition</a>'
_KINDS = {"slow": ("bad", "slow"), "fast": ("good", "fast"), "warm_up": ("off", "warm-up")}
_HEAD = (
    "Step",
    term("Kind", "outlier-step"),
    "#Time",
    "#" + term("Score", "outlier-step"),
    term("Cause", "outlier-step"),
    "#.Excess in the cause",
    "#.Explained",
    "Evidence",
)


def panel(data: JobData) -> Panel:
    rows = data.causes.outliers
    if not rows:
        return _none(data)
    slow = [r for r in rows if r.kind == "slow"]
    say = f"{count(len(slow), 'outlier-step')} slow {'step takes' if len(slow) == 1 else 'steps take'} "
    say += f"{time(sum(r.excess_ns for r in slow), 'outlier-step')} more than usual." if slow else ""
    if not slow:
        say = "No step is slow; those below are warm-up or faster than usual."
    more = f" The {MAX_OUTLIERS} that cost most." if len(rows) == MAX_OUTLIERS else ""
    foot = (
        "Slow: a score above the threshold and a time above 1.2 × the median. Cause: what takes the excess, where it"
        f" covers half of it.{more}"
    )
    return Panel("outliers", _TITLE, say, table(_HEAD, map(_row, rows)), "", _DEFINITION, foot)


def _row(r: OutlierStep) -> list[str]:
    return [
        f"<code>{text(label(r.step_name, 32))}</code> {step_name(r)}",
        pill(*_KINDS[r.kind]),
        f.duration(r.duration_ns),
        f.three_digits(r.score) if r.score is not None else unknown(None, "–"),
        text(cause_label(r)) or '<span class="muted">–</span>',
        f.duration(r.cause_excess_ns) if r.cause_excess_ns is not None else "–",
        f.percent(r.cause_ratio) if r.cause_ratio is not None else "–",
        _evidence(r),
    ]


def step_name(r: OutlierStep) -> str:
    return f"#{r.step_index if r.step_index is not None else r.step_occurrence}"


def cause_label(r: OutlierStep) -> str:
    """Cause and who, as far as known, as plain text; empty where the step is not slow."""
    if r.cause is None:
        return ""
    who = f" · rank {r.guilty_rank}" if r.guilty_rank is not None else ""
    where = f" on {label(r.guilty_node_id, 24)}" if r.guilty_node_id else ""
    return CAUSE_WORDS[r.cause] + who + where


def _evidence(r: OutlierStep) -> str:
    if not r.evidence:
        return '<span class="muted">–</span>'
    rows = "".join(f"<li><code>{text(row)}</code></li>" for row in r.evidence)
    return f'<details class="ev"><summary>{f.plural(len(r.evidence), "row")}</summary><ul>{rows}</ul></details>'


def _none(data: JobData) -> Panel:
    code = data.summary.outlier_steps_reason
    if code:
        body = state("Withheld", f"{reason(code).capitalize()}.", code)
        return Panel("outliers", _TITLE, "Outlier steps are withheld.", body, "", _DEFINITION)
    body = state("None", "Every step is like the others, within the threshold.")
    return Panel("outliers", _TITLE, "No step stands out.", body, "", _DEFINITION)
