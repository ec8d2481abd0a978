"""Time and launch counts of all kernels: the top k one by one, the rest in one row with its own bar."""

from __future__ import annotations

from tracelake.reports import format as f
from tracelake.reports.data import JobData
from tracelake.reports.html import bar, legend, name, state, table, term, text
from tracelake.reports.metric_rows import Kernel
from tracelake.reports.names import label, told_apart
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import count, percent, time

TOP = 15
"""Kernels that the page shows until the reader asks for another number."""
_CHOICES = (5, 10, TOP, 25, 50, 100)
_HEAD = (
    term("Kernel", "kernel-class"),
    "." + term("Class", "kernel-class"),
    "." + term("Precision", "precision"),
    "Time, sum over devices",
    "#" + term("Time", "kernel-time"),
    "#" + term("Share", "kernel-share"),
    "#" + term("Launches", "launch-count"),
    "#." + term("Mean", "percentile"),
    "#." + term("p99", "percentile"),
)


def panel(data: JobData) -> Panel:
    kernels = data.kernels
    if not kernels:
        known = data.summary.gpu_active_ratio is not None
        words = "No kernel ran on a device in the recorded windows."
        if not known:
            words = "The recording holds no kernel that counts, so which ones ran is unknown."
        say = "No kernels." if known else "Kernels are unknown."
        return Panel("kernels", "Kernels", say, state("Nothing recorded", words, "no_kernels", hatched=not known))
    names = len(kernels) + sum(r.name_count for r in data.other_kernels)
    executions = sum(k.kernel_count for k in kernels) + sum(r.kernel_count for r in data.other_kernels)
    total = sum(k.duration_sum_ns for k in kernels) + sum(r.duration_sum_ns for r in data.other_kernels)
    top = kernels[0]
    say = (
        f"{count(executions, 'launch-count')} launches of {f.plural(names, 'kernel')}, {time(total, 'kernel-time')} in "
        f'sum. <b class="mono">{text(label(top.short_name, 48))}</b> alone takes '
        f"{percent(top.duration_sum_ns / max(1, total), 'kernel-share')}."
    )
    key = legend((("--compute", "compute", ""), ("--exposed-comm", "communication", ""), ("--unknown", "the rest", "")))
    return Panel("kernels", "Kernels", say, key + _table(data, total), "", _select(names), _foot(data))


def _select(names: int) -> str:
    options = "".join(
        f"<option{' selected' if k == TOP else ''}>{k}</option>" for k in _CHOICES if k <= TOP or k < 2 * names
    )
    return f'<label class="muted">top <select data-top aria-label="Number of kernels">{options}</select></label>'


def _table(data: JobData, total: int) -> str:
    rests = {k: _rest(data, k) for k in _CHOICES}
    largest = max(data.kernels[0].duration_sum_ns, *(r[2] for k, r in rests.items() if k == TOP), 1)
    shorts = told_apart([(k.name, k.short_name) for k in data.kernels])
    rows = [_row(k, short, total, largest) for k, short in zip(data.kernels, shorts, strict=True)]
    attributes = [f'data-k="{i}"{" hidden" if i >= TOP else ""}' for i in range(len(rows))]
    for k, (names, executions, ns) in rests.items():
        if not names:
            continue
        mean = f.duration(ns / executions) if executions else "–"
        share = f.percent(ns / max(1, total))
        cells = [f.plural(names, "other"), "", "", bar(ns / largest, "--unknown"), f.duration(ns), share]
        rows.append([*cells, f.count(executions), mean, ""])
        attributes.append(f'class="rest" data-rest="{k}"{"" if k == TOP else " hidden"}')
    return table(_HEAD, rows, "ranked", attributes)


def _row(k: Kernel, short: str, total: int, largest: int) -> list[str]:
    token = "--exposed-comm" if k.kernel_class == "communication" else "--compute"
    core = ' <span class="muted">tensor core</span>' if k.is_tensor_core else ""
    return [
        name(k.name, short),
        f'<span class="tag">{text(k.kernel_class)}</span>',
        f'<span class="tag">{text(k.precision)}{core}{_more(k)}</span>',
        bar(k.duration_sum_ns / largest, token),
        f.duration(k.duration_sum_ns),
        f.percent(k.duration_sum_ns / max(1, total)),
        f.count(k.kernel_count),
        f.duration(k.duration_mean_ns),
        f.duration(k.duration_p99_ns),
    ]


def _rest(data: JobData, k: int) -> tuple[int, int, int]:
    """Names, executions and time of all kernels beyond the first k."""
    beyond, far = data.kernels[k:], data.other_kernels
    return (
        len(beyond) + sum(r.name_count for r in far),
        sum(x.kernel_count for x in beyond) + sum(r.kernel_count for r in far),
        sum(x.duration_sum_ns for x in beyond) + sum(r.duration_sum_ns for r in far),
    )


def _foot(data: JobData) -> str:
    foot = "Precision is that of most of a kernel's time. Click a name, or press Enter on it, to read it in full."
    if data.other_kernels:
        classes = ", ".join(
            f"{text(r.kernel_class)} {f.count(r.name_count)} ({f.duration(r.duration_sum_ns)})"
            for r in data.other_kernels[:8]
        )
        foot += f" Beyond the first {len(data.kernels)}, by class: {classes}."
    return foot


def _more(kernel: Kernel) -> str:
    """How many further precisions a name has."""
    return f" +{kernel.precision_count - 1}" if kernel.precision_count > 1 else ""
