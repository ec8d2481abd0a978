"""Goodput of the fleet: all jobs with time in the day, and those that make least of theirs."""

from __future__ import annotations

from tracelake.reports import format as f
from tracelake.reports.files import href, job_file
from tracelake.reports.fleet_data import FleetData
from tracelake.reports.goodput_rows import FleetGoodput, Goodput
from tracelake.reports.html import state, table, text, unknown
from tracelake.reports.page import Panel
from tracelake.reports.panels.goodput import amount
from tracelake.reports.panels.shared import percent, share
from tracelake.reports.words import GOODPUT

_TITLE = "Goodput"
_DEFINITION = '<a class="btn" href="#def-goodput">Definition</a>'


def panel(data: FleetData) -> Panel:
    known = next((each for each in data.goodput if each.reason is None), None)
    without = "; ".join(
        f"{f.plural(each.job_count, 'job')} without: <code>{text(each.reason)}</code>"
        for each in data.goodput
        if each.reason
    )
    if known is None or not known.known_ns:
        body = state("Unknown", "No job of this day has a goodput.")
        return Panel("goodput", _TITLE, "", body, "", _DEFINITION, without and f"{without}.")
    head = ["Job", "#Goodput", "#Productive", "#.Allocated", "#.Restarts", ".Most of the rest"]
    foot = "Of all attempts of the jobs with time in the day, the lowest first." + (f" {without}." if without else "")
    return Panel("goodput", _TITLE, _say(known), table(head, map(_row, data.lowest)), "", _DEFINITION, foot)


def _say(known: FleetGoodput) -> str:
    allocated, restarts = known.known_ns or 0, known.restart_count or 0
    return (
        f"{percent((known.goodput_ns or 0) / allocated, 'goodput')} of the known allocation of"
        f" {f.plural(known.job_count, 'job')} went into steps that count, with {f.plural(restarts, 'restart')};"
        f" in {percent((known.productive_ns or 0) / allocated, 'goodput')} of it a device computed for them."
    )


def _row(found: Goodput) -> list[str]:
    link = f'<a href="{href(job_file(found.job_id), "goodput")}">{text(found.job_id)}</a>'
    shares = [f.percent(r) if r is not None else unknown(None) for r in (found.goodput_ratio, found.productive_ratio)]
    lost = [(amount(found, part), part.word) for part in GOODPUT if part.column != "goodput_ns"]
    most, word = max(lost)
    whole = found.allocated_ns or 0
    rest = f"{text(word)}, {share(most, whole)}" if most else "–"
    return [link, *shares, f.duration(whole), f.count(found.restart_count or 0), rest]
