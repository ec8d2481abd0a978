"""What is wrong with the job, first: claim, remedy, cost, and the rows that prove it."""

from __future__ import annotations

from tracelake.reports import format as f
from tracelake.reports.data import JobData
from tracelake.reports.html import state, text
from tracelake.reports.metric_rows import Finding
from tracelake.reports.read import MAX_FINDINGS

_SIGN = 'class="ic" viewBox="0 0 20 20" role="img"'
_MARK = 'd="M10 8v4.4M10 14.2v.9" stroke="var(--surface)" stroke-width="1.7" stroke-linecap="round"'
_HIGH = f'<svg {_SIGN} aria-label="high"><path d="M10 2.5 18.5 17h-17z" fill="var(--bad)"/><path {_MARK}/></svg>'
_MEDIUM = (
    f'<svg {_SIGN} aria-label="medium"><rect x="4.2" y="4.2" width="11.6" height="11.6" rx="1.5" '
    'transform="rotate(45 10 10)" fill="none" stroke="var(--warn)" stroke-width="2"/><path d="M10 7v3.6M10 13v.6" '
    'stroke="var(--warn)" stroke-width="1.7" stroke-linecap="round"/></svg>'
)
_NOTE = (
    f'<svg {_SIGN} aria-label="note"><circle cx="10" cy="10" r="7.6" fill="none" stroke="var(--info)" '
    'stroke-width="1.8"/><path d="M10 9.2v4.4M10 6.3v.6" stroke="var(--info)" stroke-width="1.8" '
    'stroke-linecap="round"/></svg>'
)
_HIGH_RATIO = 0.1
"""Share of the device time from which a finding is marked high."""
_PANELS = {
    "slow_rank": ("ranks", "Ranks"),
    "slow_node": ("ranks", "Ranks"),
    "slow_steps": ("outliers", "Outlier steps"),
    "usual_step": ("devices", "Device time"),
    "precision": ("precision", "Precision"),
    "memory_leak": ("samples", "Power and memory"),
    "killed_process": ("quality", "Capture quality"),
    "redone_steps": ("steps", "Steps"),
    "pipeline_bubbles": ("steps", "Steps"),
}


def section(data: JobData) -> str:
    """The panel, with one entry for each finding; where there is none, it says so."""
    shown = "".join(map(_finding, data.findings))
    note = "largest cost first; what each alone may save, so they overlap" if shown else "none"
    more = f"; the first {MAX_FINDINGS}" if len(data.findings) == MAX_FINDINGS else ""
    body = shown or state("Nothing found", "No rule found anything wrong with what was recorded.")
    return (
        '<section class="panel findings" id="findings" aria-labelledby="findings-h"><div class="ph">'
        f'<h2 id="findings-h">Findings</h2><span class="muted">{note}{more}</span><span class="sp"></span>'
        f'<a class="btn" href="#def-findings">Definition</a></div>{body}</section>'
    )


def _finding(finding: Finding) -> str:
    anchor, words = _PANELS[finding.rule]
    rows = "".join(f"<li><code>{text(row)}</code></li>" for row in finding.evidence)
    return (
        f'<article class="f">{_sign(finding)}<div><h3>{text(finding.title)}</h3><p>{text(finding.remedy)}</p></div>'
        f'<div class="cost"><b>{_cost(finding)}</b><span>{_note(finding)}</span></div>'
        f'<div class="ev"><a href="#{anchor}">{words}</a><details><summary>Evidence</summary><ul>{rows}</ul></details>'
        "</div></article>"
    )


def _sign(finding: Finding) -> str:
    if finding.severity == "info":
        return _NOTE
    return _HIGH if (finding.lost_ratio or 0) >= _HIGH_RATIO else _MEDIUM


def _cost(finding: Finding) -> str:
    if finding.lost_ns is None:
        return "–"
    return f.percent(finding.lost_ratio) if finding.lost_ratio is not None else f.duration(finding.lost_ns)


def _note(finding: Finding) -> str:
    if finding.lost_ns is None:
        return "no device time named"
    price = f"; price {finding.lost_cost:,.2f}" if finding.lost_cost is not None else ""
    return f"{f.duration(finding.lost_ns)} of device time{price}"
