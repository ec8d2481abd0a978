"""What changed since the run before: figures, hyperparameters, and the kernels that moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracelake.reports import format as f
from tracelake.reports.change_rows import KernelChange, RunBefore, Verdict
from tracelake.reports.data import JobData
from tracelake.reports.html import name, pill, state, table, term, text
from tracelake.reports.names import label
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import count, percent, time
from tracelake.reports.record_rows import Summary
from tracelake.reports.words import VERDICTS

_TITLE = "What changed since the run before"
_DEFINITION = '<a class="btn" href="#def-run-before">Definition</a>'
_SHARES = (
    ("Compute", "compute_ns"),
    ("Exposed communication", "exposed_comm_ns"),
    ("Exposed memory", "exposed_mem_ns"),
    ("Idle", "idle_ns"),
)
_MAX_PARAMETERS = 12


def panel(data: JobData) -> Panel:
    before = data.before
    if before is None:
        known = data.job.family is not None
        words = (
            "This is the first comparable run of its family, project, machine type and world size."
            if known
            else "The job's family, the name that its runs share, is not known."
        )
        return Panel("changes", _TITLE, "Nothing to compare with.", state("Not applicable", words), "", _DEFINITION)
    figures = table(("Figure", "#Before", "#Now", "#" + term("Change", "run-before")), _figures(data.summary, before))
    kernels = _kernels(data.moved_kernels)
    differ = _parameters(data.job.hyperparameters, before.hyperparameters)
    say = f"{_verdict(data.verdict)}{_sentence(data.summary, before)} {differ}"
    foot = f"Before: <code>{text(label(before.job_id))}</code>, {f.utc(before.created_ns)}. {_judged(data.verdict)}"
    return Panel("changes", _TITLE, say, figures + kernels, "", _DEFINITION, foot)


def _verdict(found: Verdict | None) -> str:
    """The median step against the runs before, where it differs by more than they do among themselves."""
    if found is None or found.verdict not in VERDICTS or found.change_percent is None:
        return ""
    word = "less" if found.change_percent < 0 else "more"
    confirmed = "the next run does not show it" if found.verdict == "MIXED" else "so does the next run"
    change = percent(abs(found.change_percent) / 100, "regression")
    return (
        f"{pill(*VERDICTS[found.verdict])} The median step takes {change} {word} than in"
        f" {count(found.compared_count, 'regression')} comparable runs before it; {confirmed}. "
    )


def _judged(found: Verdict | None) -> str:
    if found is None or found.usual_ms is None or found.tolerance_ms is None:
        there = found.compared_count if found else 0
        return f"Two runs are a lead: a verdict takes five comparable runs before, and there are {f.count(there)}."
    usual, around = (f.duration(round(ms * 1e6)) for ms in (found.usual_ms, found.tolerance_ms))
    waits = found.verdict == "INCONCLUSIVE"
    return f"Usual is {usual} ± {around}{'; the next run will confirm what this one shows, or not' if waits else ''}."


def _sentence(now: Summary, before: RunBefore) -> str:
    if now.step_median_ns is None or not before.step_median_ns:
        return "Step times are not known in both."
    change = now.step_median_ns / before.step_median_ns - 1
    if abs(change) < 0.0005:
        return f"The median step takes {time(now.step_median_ns, 'step-median')}, as before."
    word = "less" if change < 0 else "more"
    return (
        f"The median step takes {percent(abs(change), 'run-before')} {word}:"
        f" {time(now.step_median_ns, 'step-median')} instead of {time(before.step_median_ns, 'step-median')}."
    )


def _parameters(now: Mapping[str, str], before: Mapping[str, str]) -> str:
    """Hyperparameters that differ, with both values."""
    differ = [k for k in sorted({*now, *before}) if now.get(k) != before.get(k)]
    if not differ:
        return "No hyperparameter differs."
    shown = "; ".join(
        f"<code>{text(label(k, 32))}</code> {text(label(before.get(k, '–'), 32))} → {text(label(now.get(k, '–'), 32))}"
        for k in differ[:_MAX_PARAMETERS]
    )
    more = f"; and {len(differ) - _MAX_PARAMETERS} more" if len(differ) > _MAX_PARAMETERS else ""
    return f"Hyperparameters that differ: {shown}{more}."


def _figures(now: Summary, before: RunBefore) -> list[list[str]]:
    rows = [["Median step time", *_times(before.step_median_ns, now.step_median_ns)]]
    rows.append(["GPU active", *_ratios(before.gpu_active_ratio, now.gpu_active_ratio)])
    for word, column in _SHARES:
        then = _share(getattr(before, column), before.device_time_ns)
        rows.append([f"{word}, of device time", *_ratios(then, _share(getattr(now, column), now.device_time_ns))])
    rows.append(["Tensor cores, of compute", *_ratios(before.tensor_core_ratio, now.tensor_core_ratio)])
    return rows


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _times(before: int | None, now: int | None) -> list[str]:
    change = now / before - 1 if before and now is not None else None
    return [_or_unknown(before, f.duration), _or_unknown(now, f.duration), _signed(change, f.percent)]


def _ratios(before: float | None, now: float | None) -> list[str]:
    change = now - before if before is not None and now is not None else None
    return [_or_unknown(before, f.percent), _or_unknown(now, f.percent), _signed(change, _points)]


def _points(ratio: float) -> str:
    return f"{f.three_digits(abs(round(100 * ratio, 2)))}{f.NBSP}points"


def _or_unknown(value: float | None, words: Callable[[float], str]) -> str:
    return '<span class="muted">unknown</span>' if value is None else words(value)


def _signed(change: float | None, words: Callable[[float], str]) -> str:
    if change is None:
        return '<span class="muted">–</span>'
    sign = "+" if change > 0 else "−" if change < 0 else "±"
    return sign + words(abs(change))


def _kernels(moved: tuple[KernelChange, ...]) -> str:
    if not moved:
        return ""
    head = ("Kernels that moved most, per step and device", "#Before", "#Now", "#Change")
    return table(head, map(_kernel, moved), "named")


def _kernel(k: KernelChange) -> list[str]:
    change = _signed(k.now_ns - k.before_ns, f.duration)
    return [name(k.name, k.short_name), _run(k.before_ns), _run(k.now_ns), change]


def _run(ns: float) -> str:
    return f.duration(ns) if ns else '<span class="muted">did not run</span>'
