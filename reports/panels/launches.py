"""How far ahead of the device the host runs, and what launching costs."""

from __future__ import annotations

from tracelake.reports import format as f
from tracelake.reports.data import JobData
from tracelake.reports.html import data_table, name, state, table, term, unknown
from tracelake.reports.metric_rows import Launch
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import count, percent


def panel(data: JobData) -> Panel:
    rows = data.launches
    if not rows:
        words = "No host call that starts device work was recorded."
        return Panel("launches", "Launches", "No launches.", state("Nothing recorded", words, "no_launches"))
    main = max(rows, key=lambda r: r.producing_launch_count)
    kernels = sum(r.kernel_count for r in rows)
    short = sum(r.short_kernel_count for r in rows)
    say = f"{count(sum(r.launch_count for r in rows), 'launches')} calls start device work."
    if kernels:
        say += f" {percent(short / kernels, 'short-kernel')} of the kernels take less time than their launch call."
    body = table(["Figure", "#Value", "Note"], _facts(rows, main, short, kernels), "facts") + _details(rows)
    return Panel("launches", "Launches", say, body)


def _facts(rows: tuple[Launch, ...], main: Launch, short: int, kernels: int) -> list[list[str]]:
    calls = sum(r.launch_count for r in rows)
    slow, late = sum(r.slow_launch_count for r in rows), sum(r.long_delay_count for r in rows)
    before = sum(r.before_launch_count for r in rows)
    clock = "delays unknown: the device's clock is off" if before else "no clock error seen"
    facts = (
        ("Kernels shorter than their launch", "short-kernel", f.percent(short / kernels) if kernels else "–",
         f"{f.count(short)} of {f.plural(kernels, 'kernel')}"),
        ("Slow launches", "slow-launch", f.count(slow), f"above 50 µs, {f.percent(slow / max(1, calls))} of calls"),
        ("Launch delay, median", "launch-delay", _delay(main.launch_delay_p50_ns), "launch start to kernel start"),
        ("Launch delay, p99", "launch-delay", _delay(main.launch_delay_p99_ns), "of the most frequent launch call"),
        ("Long delays", "long-delay", f.count(late), "above 100 µs with the stream free"),
        ("Before their launch", "before-launch", f.count(before), clock),
    )  # fmt: skip
    return [[term(what, key), value, f'<span class="muted">{note}</span>'] for what, key, value, note in facts]


def _delay(ns: int | None) -> str:
    return unknown(None) if ns is None else f.duration(ns)


def _details(rows: tuple[Launch, ...]) -> str:
    head = ["call", "#calls", "#kernels", "#host time", "#mean", "#p99", "#delay p50", "#delay p99", "#delay longest"]
    return data_table(
        head,
        (
            [
                name(r.api_name), f.count(r.launch_count), f.count(r.kernel_count), f.duration(r.duration_sum_ns),
                f.duration(r.duration_mean_ns), f.duration(r.duration_p99_ns), _delay(r.launch_delay_p50_ns),
                _delay(r.launch_delay_p99_ns), _delay(r.launch_delay_max_ns),
            ]
            for r in rows
        ),
    )  # fmt: skip
