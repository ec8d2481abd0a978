"""The panels of the fleet page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tracelake.reports import format as f
from tracelake.reports import read_fleet as read
from tracelake.reports.charts import Chart
from tracelake.reports.charts_fleet import shares_in_time
from tracelake.reports.files import href, job_file
from tracelake.reports.fleet_data import FleetData
from tracelake.reports.fleet_rows import CauseTime, Change, GroupTime
from tracelake.reports.html import data_table, legend, pill, state, swatch, table, term, text, unknown
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import share
from tracelake.reports.words import CAUSE_GROUPS, CAUSES, VERDICTS

_HOUR_NS = 3_600_000_000_000
_GROUP_WORDS = {"project": "Project", "user": "User", "family": "Family", "instance_type": "Machine type"}


def _hours_of(ns: int) -> str:
    hours = ns / _HOUR_NS
    if 0 < hours < 0.001:
        return f"<{f.NBSP}0.001"
    return f.count(round(hours)) if hours >= 999.5 else f.three_digits(hours)


def _money(value: float | None) -> str:
    return f"{value:,.2f}".replace(",", f.THIN) if value is not None else "–"


def figures(data: FleetData) -> str:
    total, productive = data.total_ns, data.time("productive")
    recorded = total - data.time("not_recorded")
    costs = [(c.cause, c.cost) for c in data.causes if c.cost is not None]
    waste = sum(cost for cause, cost in costs if cause != "productive")
    energy = [c.energy_kwh for c in data.causes if c.energy_kwh is not None]
    o = data.overview
    told = (
        (
            "Allocated",
            _hours_of(total),
            "GPU-h",
            f"{f.plural(o.job_count, 'job')} on {f.plural(o.node_count, 'node')}",
        ),
        ("Productive", *f.percent(productive / total).split(f.NBSP)[-2:], "allocated less every cause"),
        (
            "Not productive",
            _money(waste) if costs else "no price",
            "",
            "in conf's currency" if costs else "gpu_hour_prices",
        ),
        ("Energy", f.three_digits(sum(energy)) if energy else "unknown", "kWh" if energy else "", "while recorded"),
        ("Recorded", *f.percent(recorded / total).split(f.NBSP)[-2:], "of the allocated time"),
        ("Jobs with findings", f.count(o.found_count), f"of {f.count(o.job_count)}", "of severity warn"),
    )
    cells = "".join(
        f'<div><dt>{term(words, "fleet")}</dt><dd class="v{"" if any(c.isdigit() for c in value) else " word"}">'
        f'{text(value)}<span class="u">{text(f.NBSP + unit if unit else "")}</span></dd><div class="rng none"></div>'
        f'<dd class="d">{text(note)}</dd></div>'
        for words, value, unit, note in told
    )
    return f'<dl class="kf" id="figures" aria-label="Key figures">{cells}</dl>'


def hours(data: FleetData) -> Panel:
    """A waterfall from all that was allocated down to what was productive."""
    total = data.total_ns
    times = {c.cause: c for c in data.causes}
    shown = [part for part in CAUSES if part.column in times and part.column != "productive"]
    left, rows = (
        total,
        [["allocated", _span(0, 1, "--host"), _hours_of(total), share(total, total), _money(_sum(data.causes))]],
    )
    for part in shown:
        each = times[part.column]
        left -= each.device_ns
        rows.append(_waterfall(part.word, part.token, left, each, total))
    if productive := times.get("productive"):
        rows.append(_waterfall("productive", "--compute", 0, productive, total))
    head = ["Cause", "From allocated to productive", "#GPU-hours", "#.Share", "#.Cost"]
    largest = max((times[p.column].device_ns, p.word) for p in shown) if shown else None
    say = f"<b>{_hours_of(data.time('productive'))} of {_hours_of(total)} GPU-hours were productive.</b>"
    if largest:
        say += f" The largest cause is {text(largest[1])}, with {share(largest[0], total)}."
    note = "Each hour has one cause: the first that applies. They add up to the allocation exactly."
    return Panel(
        "hours", "Where the GPU-hours went", say, table(head, rows, "bars fall"), "", _definition("fleet-cause"), note
    )


def _waterfall(word: str, token: str, before: int, each: CauseTime, total: int) -> list[str]:
    bar = _span(before / total, each.device_ns / total, token)
    return [text(word), bar, _hours_of(each.device_ns), share(each.device_ns, total), _money(each.cost)]


def _sum(causes: Iterable[CauseTime]) -> float | None:
    known = [c.cost for c in causes if c.cost is not None]
    return sum(known) if known else None


def _span(start: float, length: float, token: str) -> str:
    """A bar that begins where the one below it ends."""
    place = f"margin-left:{100 * start:.2f}%;width:{100 * length:.2f}%"
    return f'<div class="bar" style="{place};background:var({token})"></div>'


def savings(data: FleetData) -> Panel:
    if not data.savings:
        body = state("Nothing found", "No rule found device time at stake in the jobs of this day.")
        return Panel("savings", "Top savings", "", body, "", _definition("findings"))
    words = {part.column: part for part in CAUSES}
    rows = [
        [
            f'<a href="{href(job_file(s.job_id), "findings")}">{text(s.job_id)}</a><br><span class="muted">'
            f"{text(' / '.join(filter(None, (s.project, s.family))))}</span>",
            f'<span class="tag">{swatch(words[s.cause].token) if s.cause in words else ""} '
            f"{text(words[s.cause].word if s.cause in words else s.cause.replace('_', ' '))}</span>",
            f"{text(s.title)}<br><span class='muted'>{text(s.remedy)}</span>",
            _hours_of(s.lost_ns),
            _money(s.lost_cost),
            f.percent(s.confidence) if s.confidence is not None else unknown(None),
        ]
        for s in data.savings
    ]
    head = ["Job", ".Cause", "What, and what to try", "#GPU-hours", "#.Cost", "#.Confidence"]
    say = f"The first would give back <b>{_hours_of(data.savings[0].lost_ns)} GPU-hours</b>."
    note = "What curing each alone may save, over the whole job; findings overlap and are not added up."
    return Panel("savings", "Top savings", say, table(head, rows), "", _definition("findings"), note)


def changes(data: FleetData) -> Panel:
    if not data.changes:
        words = "No job of the last 7 days differs from its family's runs before it, or none has five to compare with."
        return Panel("changes", "Regressions", "", state("No change", words), "", _definition("regression"))
    rows = [_change(c) for c in data.changes]
    slower = sum(c.verdict == "REGRESSION" for c in data.changes)
    say = f"{f.plural(slower, 'job is', 'jobs are')} slower than the runs of their family, confirmed by the next run."
    head = ["Job", ".Family", "Verdict", "#.Usual", "#Now", "#Step time"]
    note = "Limit: more than max(5 %, 3 × 1.4826·MAD) from the median of at least 5 runs."
    return Panel("changes", "Regressions", say, table(head, rows), "", _definition("regression"), note)


def _change(c: Change) -> list[str]:
    link = f'<a href="{href(job_file(c.job_id))}">{text(c.job_id)}</a>'
    family = text(" / ".join(filter(None, (c.project, c.family))))
    sign = "+" if c.change_percent > 0 else "−"
    times = [f.duration(ms * 1e6) for ms in (c.usual_ms, c.step_median_ms)]
    return [link, family, pill(*VERDICTS[c.verdict]), *times, f"<b>{sign}{f.percent(abs(c.change_percent) / 100)}</b>"]


def nodes(data: FleetData) -> Panel:
    if not data.suspects:
        body = state("None", "No node was the guilty one in at least 3 jobs of 7 days.")
        return Panel("nodes", "Suspect nodes", "", body, "c6", _definition("suspect-node"))
    rows = [
        [
            f'<span class="mono">{text(n.node_id)}</span>',
            f.count(n.job_count),
            text(", ".join(cause.replace("_", " ") for cause in n.causes)),
            f.three_digits(n.lost_hours) if n.lost_hours is not None else unknown(None),
            f'<a href="{href(job_file(n.job_ids[0]))}">{text(n.job_ids[0])}</a>',
        ]
        for n in data.suspects
    ]
    say = f"{f.plural(len(rows), 'node was', 'nodes were')} the guilty one in at least 3 jobs within 7 days."
    head = ["Node", "#Jobs", ".Cause", "#GPU-hours", "Latest job"]
    return Panel("nodes", "Suspect nodes", say, table(head, rows), "c6", _definition("suspect-node"))


def groups(data: FleetData) -> Panel:
    marks = legend((token, text(words), "") for words, token, _ in CAUSE_GROUPS)
    first, *others = (_group_table(data.groups[by], _GROUP_WORDS[by]) for by in read.GROUPS)
    more = "".join(
        f'<details class="data"><summary>By {_GROUP_WORDS[by].lower()}</summary>{each}</details>'
        for by, each in zip(read.GROUPS[1:], others, strict=True)
    )
    return Panel("groups", "By project", "", marks + first + more, "c6", _definition("fleet-cause"))


def _group_table(rows: Iterable[GroupTime], words: str) -> str:
    by_name: dict[str | None, Counter[str]] = {}
    for row in rows:
        by_name.setdefault(row.name, Counter())[row.cause] += row.device_ns
    cells = [
        [
            text(name) if name is not None else unknown(None),
            _hours_of(causes.total()),
            _segments(causes),
            share(causes["productive"], causes.total()),
        ]
        for name, causes in by_name.items()
    ]
    return table([words, "#GPU-hours", "Where they went", "#Productive"], cells, "bars")


def _segments(causes: Counter[str]) -> str:
    total = causes.total() or 1
    parts = ((words, token, sum(causes[c] for c in members)) for words, token, members in CAUSE_GROUPS)
    shown = "".join(
        f'<i style="width:{100 * ns / total:.2f}%;background:var({token})" title="{words} {share(ns, total)}"></i>'
        for words, token, ns in parts if ns
    )  # fmt: skip
    return f'<div class="seg">{shown}</div>'


def trend(data: FleetData) -> Panel:
    by_day: dict[str, Counter[str]] = {}
    for row in data.days:
        by_day.setdefault(row.day, Counter())[row.cause] += row.device_ns
    values: list[dict[str, object]] = []
    for day, causes in by_day.items():
        for order, (words, _, members) in enumerate(CAUSE_GROUPS):
            ns = sum(causes[c] for c in members)
            if ns:
                told = {
                    "x": day,
                    "c": words,
                    "o": order,
                    "b": f"{_hours_of(ns)} GPU-hours",
                    "e": share(ns, causes.total()),
                }
                values.append({**told, "v": ns / causes.total()})
    tokens = {words: token for words, token, _ in CAUSE_GROUPS}
    shares = [causes["productive"] / causes.total() for causes in by_day.values()]
    say = f"{f.percent(shares[-1])} of the time was productive on this day."
    if len(shares) > 1:
        low, high = f.percent(min(shares)), f.percent(max(shares))
        say += f" On the {f.plural(len(shares), 'day')} shown it was between {low} and {high}."
    body = (
        legend((token, text(words), "") for words, token, _ in CAUSE_GROUPS)
        + '<div class="chart" data-chart="trend" role="img" aria-label="Share of GPU-hours by cause and day"></div>'
        + data_table(
            ["day", "#GPU-hours", "#productive"],
            ([text(d), _hours_of(c.total()), share(c["productive"], c.total())] for d, c in by_day.items()),
        )
    )
    return Panel(
        "trend",
        "30 days",
        say,
        body,
        "",
        _definition("fleet-cause"),
        "",
        {"trend": Chart([shares_in_time(values, tokens)])},
    )


def _definition(key: str) -> str:
    return f'<a class="btn" href="#def-{key}">Definition</a>'
