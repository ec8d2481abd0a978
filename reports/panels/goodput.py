"""Goodput: of all device time that the job was given, over all attempts, what went into steps that count."""

from __future__ import annotations

from tracelake.reports import format as f
from tracelake.reports.data import JobData
from tracelake.reports.goodput_rows import Goodput
from tracelake.reports.html import bar, state, table, term, text
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import percent, share, time
from tracelake.reports.words import GOODPUT, Part, reason

_TITLE = "Goodput of all attempts"
_DEFINITION = '<a class="btn" href="#def-goodput">Definition</a>'


def panel(data: JobData) -> Panel:
    found = data.goodput
    if found is None or not found.allocated_ns:
        code = found.reason if found else "no_allocation"
        body = state("Unknown", f"{reason(code).capitalize()}.", code, hatched=True)
        return Panel("goodput", _TITLE, "Goodput is unknown.", body, "", _DEFINITION)
    head = ["Part", "Device time", "#" + term("Device time", "goodput"), "#Share of the allocation"]
    shown = [(part, ns) for part in GOODPUT for ns in [amount(found, part)] if ns]
    rows = [_row(part, ns, found.allocated_ns) for part, ns in shown]
    return Panel("goodput", _TITLE, _say(found), table(head, rows, "bars"), "", _DEFINITION, _foot(found))


def amount(found: Goodput, part: Part) -> int:
    ns: int | None = getattr(found, part.column)
    return ns or 0


def _row(part: Part, ns: int, allocated_ns: int) -> list[str]:
    return [text(part.word), bar(ns / allocated_ns, part.token), f.duration(ns), share(ns, allocated_ns)]


def _say(found: Goodput) -> str:
    if found.goodput_ratio is None or found.productive_ratio is None:
        return f"Goodput has no ratio: {reason(found.reason)} (<code>{text(found.reason)}</code>)."
    return (
        f"{percent(found.goodput_ratio, 'goodput')} of the known allocation went into steps that count;"
        f" in {percent(found.productive_ratio, 'goodput')} of it a device computed for them."
    )


def _foot(found: Goodput) -> str:
    if found.restart_count is None:
        return ""
    told = [f"{f.plural(found.attempt_count, 'attempt')} seen, {f.plural(found.restart_count, 'restart')}"]
    if found.restart_count:
        gap = time(found.restart_gap_ns, "goodput") if found.restart_gap_ns is not None else "an unknown time"
        told.append(f"between attempts {gap} that are in no allocation")
    if found.redone_step_count:
        told.append(f"{f.plural(found.redone_step_count, 'step')} redone")
    return "; ".join(told) + "."
