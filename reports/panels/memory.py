"""Copies and fills, by kind, size and time."""

from __future__ import annotations

from tracelake.reports import format as f
from tracelake.reports.data import JobData
from tracelake.reports.html import bar, state, table, term, text, unknown
from tracelake.reports.metric_rows import Memop
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import count, percent, time
from tracelake.reports.words import DIRECTIONS

_HEAD = (
    "Kind",
    "Time, sum",
    "#" + term("Time", "memop-time"),
    "#" + term("Bytes", "memop-bytes"),
    "#.Median size",
    "#Count",
    "#." + term("Rate", "memop-rate"),
)


def panel(data: JobData) -> Panel:
    rows = data.memops
    if not rows:
        words = "No copy or fill was recorded in this job's windows."
        return Panel(
            "memory", "Memory operations", "No memory operations.", state("Nothing recorded", words, "no_memops")
        )
    total = sum(m.duration_sum_ns for m in rows)
    moved = sum(m.sum_bytes or 0 for m in rows)
    top = rows[0]
    say = (
        f"{count(sum(m.memop_count for m in rows), 'memop-time')} operations move {f.size(moved)} in "
        f"{time(total, 'memop-time')}; {percent(top.duration_sum_ns / max(1, total), 'memop-time')} of that time is "
        f"{_kind(top)}."
    )
    unsized = sum(m.memop_count - m.sized_count for m in rows)
    foot = f"The size of {f.plural(unsized, 'operation')} is not recorded; rates leave them out." if unsized else ""
    return Panel("memory", "Memory operations", say, table(_HEAD, (_row(m, top) for m in rows), "bars"), foot=foot)


def _kind(m: Memop) -> str:
    if m.kind == "memset":
        return "memset"
    words = DIRECTIONS.get(m.direction or "", "copy, direction not recorded")
    return f"{words} · {text(m.memory_kind)}" if m.memory_kind else words


def _row(m: Memop, top: Memop) -> list[str]:
    sized = m.sum_bytes is not None and m.sized_count
    return [
        _kind(m),
        bar(m.duration_sum_ns / max(1, top.duration_sum_ns), "--exposed-mem"),
        f.duration(m.duration_sum_ns),
        f.size(m.sum_bytes) if m.sum_bytes is not None else unknown(None),
        f.size(m.p50_bytes) if m.p50_bytes is not None else unknown(None),
        f.count(m.memop_count),
        f.rate(m.sum_bytes or 0, m.sized_duration_sum_ns) if sized else unknown(None),
    ]
