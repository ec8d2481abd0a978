"""Steps: how long, in time order and as a distribution, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence

from tracelake.reports import format as f
from tracelake.reports.charts import Chart, Values, histogram, stacked_columns, stacked_rows, steps_in_time
from tracelake.reports.data import JobData
from tracelake.reports.html import data_table, legend, state, term, text
from tracelake.reports.metric_rows import RankSteps, Step, StepGroup, StepsLeftOut
from tracelake.reports.names import label
from tracelake.reports.page import Panel
from tracelake.reports.panels.outliers import cause_label, step_name
from tracelake.reports.panels.shared import (
    bin_values,
    bins_foot,
    count,
    percent,
    rank_labels,
    share,
    time,
    tokens,
    values,
)
from tracelake.reports.words import STEP, reason

MAX_NAMED = 8
"""Slow steps named on the chart."""
MAX_COLUMNS = 40
"""Up to so many steps are shown one by one in the ledger; else their mean per rank."""


def panels(data: JobData) -> list[Panel]:
    if not data.step_groups:
        return [_none(data)]
    group = data.step_groups[0]
    if group.step_count == 1:
        return [_only_one(data, group)]
    return [_in_time(data, group), _distribution(data, group), _made_of(data, group)]


def _none(data: JobData) -> Panel:
    left_out = data.steps_left_out
    if left_out:
        n = sum(x.step_count for x in left_out)
        code = left_out[0].reason or left_out[0].status
        body = state(
            "Withheld", f"{f.plural(n, 'step')} recorded, none of them whole. {reason(code).capitalize()}.", code
        )
        return Panel("steps", "Steps", f"None of the {count(n, 'step-time')} steps counts.", body)
    unknown = data.summary.no_steps_reason
    why = f", and none could be inferred: {reason(unknown)}" if unknown else ""
    words = (
        f"No step markers{why}. Name steps with the profiler's step(), the recorder's annotate(), or a pattern of your "
        "own in the configuration."
    )
    return Panel("steps", "Steps", "No steps are known.", state("Nothing recorded", words, unknown or "no_steps"))


def _inferred(data: JobData) -> str:
    """Said where no marker names the steps."""
    s = data.summary
    if not s.is_step_inferred:
        return ""
    period, agreement = s.step_period_launch_count, s.step_agreement_ratio
    even = f": a period of {f.plural(period, 'kernel launch', 'kernel launches')}" if period else ""
    even += f", agreement {f.percent(agreement)}" if agreement is not None else ""
    return f" No markers name the steps; they are inferred from repeating launches{even} <code>inferred</code>."


def _others(data: JobData) -> str:
    """Groups of steps under other names, and steps that do not count."""
    parts = [
        f"{f.plural(g.step_count, 'step')} named <code>{text(label(g.step_name, 40))}</code>, median "
        f"{f.duration(g.duration_p50_ns)}"
        for g in data.step_groups[1:5]
    ]
    parts += [_left_out(x) for x in data.steps_left_out[:5]]
    return f"Besides: {'; '.join(parts)}." if parts else ""


def _left_out(x: StepsLeftOut) -> str:
    code = x.reason or x.status
    fate = "left out" if x.status == "cut" else "without parts"
    return f"{f.plural(x.step_count, 'rank step')} {fate}, {text(reason(code))} <code>{text(code)}</code>"


def _step_name(step: Step) -> str:
    """The label that the program gave, which may repeat, or the number in time order."""
    return f"#{step.step_index if step.step_index is not None else step.step_occurrence}"


def _in_time(data: JobData, group: StepGroup) -> Panel:
    steps = data.steps
    run = max(s.step_count for s in steps)
    scale, unit = f.axis_unit(group.duration_max_ns)
    rows: Values = [_point(s, group, scale) for s in steps]
    named = _named(data, group, scale)
    chart = Chart([steps_in_time(rows, named, group.duration_p50_ns / scale, unit)])
    worst = max(steps, key=lambda s: s.duration_ns)
    who = f" on rank {worst.rank}" if worst.rank is not None else ""
    say = (
        f"{count(group.step_count, 'step-time')} steps of <code>{text(label(group.step_name, 40))}</code>, median "
        f"{time(group.duration_p50_ns, 'step-median')}. The longest, {_step_name(worst)}{who}, takes "
        f"{time(worst.duration_ns, 'step-time')}, {worst.duration_ns / max(1, group.duration_p50_ns):.3g} × the median."
    )
    say += _inferred(data)
    if run > 1:
        say += f" Each dot is the slowest of {f.count(run)} consecutive steps."
    body = '<div class="chart" data-chart="steps" role="img" aria-label="Step time in time order"></div>' + data_table(
        ["step", "#time", "#of the median", "slowest"],
        ([str(r["n"]), str(r["b"]), str(r["d"]), str(r["r"])] for r in rows[:200]),
    )
    foot = f"Slowest rank of each step; the band is within 20{f.NBSP}% of the median. {_others(data)}"
    return Panel("steps", "Steps", say, body, "c7", _definition("step-time"), foot, {"steps": chart})


def _named(data: JobData, group: StepGroup, scale: int) -> Values:
    """Names of the slow steps that cost most: as many as find room, no two so near that they cover each other."""
    steps = {s.step_occurrence for s in data.steps}
    first, last = min(steps), max(steps)
    room = max(1, last - first) / MAX_NAMED
    named: Values = []
    taken: list[int] = []
    for o in data.causes.outliers:
        is_free = all(abs(o.step_occurrence - other) >= room for other in taken)
        if o.kind == "slow" and o.step_name == group.step_name and o.step_occurrence in steps and is_free:
            taken.append(o.step_occurrence)
            named.append(
                {
                    "x": o.step_occurrence,
                    "v": round(o.duration_ns / scale, 6),
                    "l": f"{step_name(o)} +{f.duration(o.excess_ns)}",
                    "m": cause_label(o),
                    "left": o.step_occurrence - first > (last - first) / 2,
                }
            )
    return named[:MAX_NAMED]


def _definition(key: str) -> str:
    return f'<a class="btn" href="#def-{key}">Definition</a>'


def _point(s: Step, group: StepGroup, scale: int) -> dict[str, object]:
    change = s.duration_ns / max(1, group.duration_p50_ns) - 1
    return {
        "x": s.step_occurrence,
        "v": round(s.duration_ns / scale, 6),
        "n": _step_name(s),
        "b": f.duration(s.duration_ns),
        "d": ("+" if change > 0 else "") + f.percent(change),
        "r": _who(s),
    }


def _who(s: Step) -> str:
    return f"rank {s.rank}" if s.rank is not None else label(s.node_id, 28) if s.node_id else "rank not known"


def _distribution(data: JobData, group: StepGroup) -> Panel:
    scale, unit = f.axis_unit(group.duration_max_ns)
    rows = bin_values(data.step_bins, scale)
    body = '<div class="chart" data-chart="step-bins" role="img" aria-label="Distribution of step times"></div>'
    body += data_table(["step time", "#steps", "#share"], ([str(r["w"]), str(r["s"]), str(r["e"])] for r in rows))
    spread = group.duration_p99_ns / max(1, group.duration_p50_ns)
    say = (
        f"From {time(group.duration_min_ns, 'step-time')} to {time(group.duration_max_ns, 'step-time')}; p99 is "
        f"{time(group.duration_p99_ns, 'percentile')}, {spread:.3g} × the median."
    )
    chart = Chart([histogram(rows, unit, "steps")])
    foot = bins_foot(data.step_bins, "step")
    definition = _definition("step-bins")
    return Panel("step-bins", "Step-time distribution", say, body, "c5", definition, foot, {"step-bins": chart})


def _parts(row: Step | RankSteps) -> dict[str, int] | None:
    if row.other_ns is None:
        return None
    return {
        "compute_ns": row.compute_ns or 0,
        "exposed_comm_ns": row.exposed_comm_ns or 0,
        "exposed_mem_ns": (row.memcpy_ns or 0) + (row.memset_ns or 0),
        "runtime_ns": row.runtime_ns or 0,
        "data_loading_ns": row.data_loading_ns or 0,
        "host_work_ns": row.host_work_ns or 0,
        "other_ns": row.other_ns,
    }


def _made_of(
    data: JobData, group: StepGroup, anchor: str = "step-ledger", title: str = "What steps are made of"
) -> Panel:
    """Per step where there are few, else the mean step of each rank."""
    by_step = 1 < len(data.steps) <= MAX_COLUMNS
    named: list[tuple[str, int, dict[str, int]]] = []
    rows: Sequence[Step | RankSteps] = data.steps if by_step else data.rank_steps
    labels = _unique_steps(data.steps) if by_step else rank_labels(data.rank_steps)
    for row_label, row in zip(labels, rows, strict=True):
        if (amounts := _parts(row)) is not None:
            named.append((row_label, row.duration_ns, amounts))
    if not named:
        code = next((d.reason for d in data.devices if d.reason), None) or "no_gpu_activity_captured"
        steps = f.plural(group.step_count, "step")
        words = f"{steps} with a duration, none with device numbers. {reason(code).capitalize()}."
        return Panel(
            anchor, title, "What the steps are made of is unknown.", state("Withheld", words, code, hatched=True)
        )
    scale, unit = f.axis_unit(max(d for _, d, _ in named))
    axis = "x" if by_step else "y"
    points: Values = [v for y, d, a in named for v in values((axis, y), a, d, STEP, scale)]
    draw = stacked_columns if by_step else stacked_rows
    total = {p.column: sum(a[p.column] for _, _, a in named) for p in STEP}
    whole = sum(total.values())
    top = max(STEP, key=lambda p: total[p.column])
    body = (
        legend((p.token, term(p.word, p.definition), share(total[p.column], whole)) for p in STEP if total[p.column])
        + f'<div class="chart" data-chart="{anchor}" role="img" aria-label="{title}"></div>'
        + data_table(
            ["row", "#step time", *(f"#{p.word}" for p in STEP)],
            ([text(y), f.duration(d), *(f.duration(a[p.column]) for p in STEP)] for y, d, a in named),
        )
    )
    per = "step, on its slowest rank" if by_step else "rank" if group.step_count == 1 else "rank, the mean of its steps"
    say = (
        f"{percent(total[top.column] / max(1, whole), 'step-ledger')} of step time is {top.word}. One bar per {per}; "
        "each instant goes to the first live class, so the parts sum to the step time."
    )
    chart = Chart([draw(points, tokens(STEP), unit)])
    return Panel(anchor, title, say, body, "", _definition("step-ledger"), "", {anchor: chart})


def _unique_steps(steps: Sequence[Step]) -> list[str]:
    """Labels repeat with each epoch or resume; then the number in time order stands in."""
    labels = [_step_name(s) for s in steps]
    return labels if len(set(labels)) == len(labels) else [str(s.step_occurrence) for s in steps]


def _only_one(data: JobData, group: StepGroup) -> Panel:
    """One step has no distribution: it is shown per rank, and what is withheld is said."""
    panel = _made_of(data, group, "steps", "Steps")
    step = data.steps[0]
    first = (
        f"One step (<code>{text(label(group.step_name, 40))}</code> {_step_name(step)}) takes "
        f"{time(step.duration_ns, 'step-time')} on its slowest rank. "
    )
    withheld = state(
        "Step-time distribution withheld: too few steps",
        "1 step recorded; 2 make a distribution and 8 make statistics. Record more, for example "
        "<code>active=20</code> in the profiler's schedule.",
        "too_few_steps",
    )
    return Panel(
        "steps", "Steps", first + panel.say, panel.body + withheld, "", panel.controls, _others(data), panel.charts
    )
