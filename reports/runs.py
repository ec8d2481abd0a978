"""The page of runs: what the last nights took in, how long they took, what failed, and why."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable

from tracelake.reports import format as f
from tracelake.reports.charts import Chart, Values
from tracelake.reports.charts_fleet import amounts_in_time
from tracelake.reports.files import INDEX_FILE, href, job_file
from tracelake.reports.html import data_table, legend, pill, state, table, term, text, unknown
from tracelake.reports.names import label
from tracelake.reports.page import Page, Panel, definitions, foot
from tracelake.reports.runs_data import DAYS, MAX_RUNS, DayOfRuns, FailedDeliveries, Run, RunsData
from tracelake.reports.words import OUTCOMES

STATUSES = {
    "succeeded": ("good", "succeeded", "--host"),
    "incomplete": ("warn", "incomplete", "--warn"),
    "failed": ("bad", "failed", "--bad"),
}
"""How a run ended: kind of its pill, word, and token of its part of a chart."""
_FATES = {
    "stored": ("rows_stored_count", "--host"),
    "copies left out": ("rows_deduplicated_count", "--unknown"),
    "skipped by kind": ("rows_skipped_count", "--idle"),
    "quarantined": ("rows_quarantined_count", "--warn"),
}
_DEFINED = ("run", "run-seconds", "rows", "quarantine", "check-outcome", "delivery")
_RAIL = (
    ("Runs", (("figures", "Key figures"), ("time", "Duration"), ("rows", "Rows"), ("runs", "Last runs"))),
    ("Record", (("deliveries", "Deliveries"), ("definitions", "Definitions"))),
)
_LONGEST_REASON = 300


def runs_page(data: RunsData, *, made_ns: int) -> str:
    """The page as HTML. made_ns is the time that its foot states."""
    shown = [_time(data.days), _rows(data.days), _runs(data.runs), _deliveries(data.deliveries), definitions(_DEFINED)]
    last = f"Last one <b>{f.utc(data.runs[0].started_ns)}</b>" if data.runs else "None yet"
    body = (
        f'<div class="title"><h1>Runs</h1></div><p class="meta"><span>{last}</span></p>{_banner(data.runs)}'
        f'<div class="grid">{_figures(data)}{"".join(panel.html() for panel in shown)}</div>'
        + foot(f"made {f.utc(made_ns)}", "All times UTC.")
    )
    charts = {key: chart for panel in shown for key, chart in panel.charts.items()}
    jobs = f'<a class="btn" href="{INDEX_FILE}">Jobs</a>'
    return Page("Runs", ("Jobs", "Runs"), _RAIL, body, charts, (), jobs).html()


def _banner(runs: tuple[Run, ...]) -> str:
    """The last run, where it did not succeed."""
    if not runs or runs[0].status == "succeeded":
        return ""
    kind = "bad" if runs[0].status == "failed" else ""
    what = f"The last run, {text(runs[0].command)}, {'failed' if kind else 'was incomplete'}."
    return f'<div class="banner {kind}" role="note"><b>{what}</b> {_reason(runs[0])}</div>'


def _reason(run: Run) -> str:
    return text(label(run.error, _LONGEST_REASON)) if run.error else ""


def _figures(data: RunsData) -> str:
    # Those that found nothing new, as most reports do, say little.
    last = next((run for run in data.runs if run.source_count), None)
    checks = Counter({name: int(count) for name, count in last.checks.items()}) if last else Counter[str]()
    waiting = sum(each.job_count for each in data.deliveries)
    success = f.utc(data.last_success_ns).split(f.NBSP) if data.last_success_ns else None
    told = (
        ("Last success", "run", success[0] if success else "none yet", f"{success[1]} UTC" if success else "", True),
        ("Last with new data", "run", f.duration(last.duration_ns) if last else "none yet",
         f"{last.command} of {_day_of(last)}" if last else "", last is None),
        ("Windows", "run", f.count(last.source_count) if last else "–", "taken in by it", False),
        ("Quarantined", "quarantine", _quarantined(last), "of its rows", False),
        ("Checks failed", "check-outcome", f.count(checks["failed"] + checks["error"]) if checks else "–",
         f"of {f.count(checks.total())}" if checks else "none by it", False),
        ("Deliveries failing", "delivery", f.count(waiting), "jobs and targets, by now", False),
    )  # fmt: skip
    cells = "".join(
        f'<div><dt>{term(words, key)}</dt><dd class="v{" word" if is_word else ""}">{text(value)}</dd>'
        f'<div class="rng none"></div><dd class="d">{text(note)}</dd></div>'
        for words, key, value, note, is_word in told
    )
    return f'<dl class="kf" id="figures" aria-label="Key figures">{cells}</dl>'


def _day_of(run: Run) -> str:
    return f.utc(run.started_ns).partition(f.NBSP)[0]


def _quarantined(run: Run | None) -> str:
    return f.percent(run.rows_quarantined_count / run.rows_read_count) if run and run.rows_read_count else "–"


def _days(days: tuple[DayOfRuns, ...]) -> list[str]:
    """Every day from the first to the last: one without a run is a gap to be seen."""
    first, last = (dt.date.fromisoformat(days[at].day) for at in (0, -1))
    return [(first + dt.timedelta(n)).isoformat() for n in range((last - first).days + 1)]


def _time(days: tuple[DayOfRuns, ...]) -> Panel:
    if not days:
        return _nothing("time", "Duration by day")
    scale, unit = f.axis_unit(max(d.duration_ns for d in days))
    words = [word for _, word, _ in STATUSES.values()]
    values: Values = [
        {"x": d.day, "c": STATUSES[d.status][1], "o": words.index(STATUSES[d.status][1]), "v": d.duration_ns / scale,
         "b": f"{f.duration(d.duration_ns)}, {f.plural(d.run_count, 'run')}"}
        for d in days
    ]  # fmt: skip
    failed = sum(d.run_count for d in days if d.status == "failed")
    empty = len(_days(days)) - len({d.day for d in days})
    say = f"{f.plural(sum(d.run_count for d in days), 'run')} on {f.plural(len({d.day for d in days}), 'day')}"
    say += f"; <b>{f.count(failed)} failed</b>." if failed else ", none failed."
    say += f" {f.plural(empty, 'day')} without a run." if empty else ""
    marks = [(token, word, _runs_of(days, status)) for status, (_, word, token) in STATUSES.items()]
    rows = (
        [d.day, STATUSES[d.status][1], f.count(d.run_count), f.duration(d.duration_ns)] for d in sorted(days, key=_day)
    )
    body = (
        legend(marks)
        + _chart("run-time", "Duration of the runs by day and by how they ended")
        + data_table(["day", "status", "#runs", "#duration"], rows)
    )
    tokens = {word: token for _, word, token in STATUSES.values()}
    chart = Chart([amounts_in_time(_days(days), values, tokens, f"duration, {unit}")])
    return Panel("time", "Duration by day", say, body, "c6", _definition("run"), charts={"run-time": chart})


def _day(each: DayOfRuns) -> str:
    return each.day


def _runs_of(days: tuple[DayOfRuns, ...], status: str) -> str:
    return f.count(sum(d.run_count for d in days if d.status == status))


def _rows(days: tuple[DayOfRuns, ...]) -> Panel:
    if not days:
        return _nothing("rows", "Rows by day")
    by_day: dict[str, Counter[str]] = {}
    for each in days:
        by_day.setdefault(each.day, Counter()).update({word: getattr(each, c) for word, (c, _) in _FATES.items()})
    values: Values = [
        {"x": day, "c": word, "o": order, "v": found[word], "b": f.plural(found[word], "row")}
        for day, found in by_day.items()
        for order, word in enumerate(_FATES)
        if found[word]
    ]
    total = sum(by_day.values(), Counter[str]())
    share = f.percent(total["quarantined"] / total.total()) if total.total() else "none"
    say = f"{f.plural(total.total(), 'row')} read in {DAYS} days; {share} set aside."
    rows = ([day, *(f.count(found[word]) for word in _FATES)] for day, found in by_day.items())
    body = (
        legend((token, word, f.count(total[word])) for word, (_, token) in _FATES.items())
        + _chart("run-rows", "Rows by day and by what became of them")
        + data_table(["day", *(f"#{word}" for word in _FATES)], rows)
    )
    chart = Chart([amounts_in_time(_days(days), values, {w: token for w, (_, token) in _FATES.items()}, "rows")])
    return Panel("rows", "Rows by day", say, body, "c6", _definition("rows"), charts={"run-rows": chart})


def _nothing(id_: str, title: str) -> Panel:
    return Panel(id_, title, "", state("Nothing recorded", "No run has ended in this lake yet."), "c6")


def _chart(id_: str, what: str) -> str:
    return f'<div class="chart" data-chart="{id_}" role="img" aria-label="{what}"></div>'


def _runs(runs: tuple[Run, ...]) -> Panel:
    if not runs:
        return Panel("runs", "Last runs", "", state("Nothing recorded", "No run has ended in this lake yet."))
    head = [
        "Started, UTC", "How it ended", ".Jobs", "#.Windows", "#.Rows read", "#.Stored", "#Quarantined", "#.Copies",
        "#Took", ".Stages", ".Checks", "#.Not delivered",
    ]  # fmt: skip
    newest = f"The newest {f.count(MAX_RUNS)}. " if len(runs) == MAX_RUNS else ""
    note = f"{newest}A run that found nothing new has no windows. Not delivered: jobs whose figures it made."
    body = table(head, map(_run, runs), "runs")
    return Panel("runs", "Last runs", "", body, "", _definition("run-seconds"), note)


def _run(run: Run) -> list[str]:
    started = f.utc(run.started_ns).removesuffix(f"{f.NBSP}UTC")
    kind, word, _ = STATUSES[run.status]
    reason = f'<div class="muted">{_reason(run)}</div>' if run.error else ""
    spent = ", ".join(f"{text(name)} {f.duration(float(s) * 1e9)}" for name, s in run.seconds.items())
    count: Callable[[int], str] = lambda n: f.count(n) if n else "–"  # noqa: E731 -- zeros would hide what is there
    return [
        f'{started}<div class="muted">{text(run.command)}</div>',
        pill(kind, word) + reason,
        _jobs(run),
        *map(count, (run.source_count, run.rows_read_count, run.rows_stored_count)),
        f"<b>{f.count(run.rows_quarantined_count)}</b>" if run.rows_quarantined_count else "–",
        count(run.rows_deduplicated_count),
        f.duration(run.duration_ns),
        spent or "–",
        ", ".join(f"{f.count(int(run.checks[o]))} {word}" for o, (_, word) in OUTCOMES.items() if o in run.checks)
        or "–",
        count(run.failed_delivery_count),
    ]


def _jobs(run: Run) -> str:
    named = ", ".join(
        f'<a href="{href(job_file(job))}" title="{text(job)}">{text(label(job, 24))}</a>' for job in run.jobs
    )
    more = run.job_count - len(run.jobs)
    return (named + (f" and {f.count(more)} more" if more > 0 else "")) or "–"


def _deliveries(failed: tuple[FailedDeliveries, ...]) -> Panel:
    title = term("Deliveries that fail", "delivery")
    if not failed:
        return Panel("deliveries", title, "", state("None", "No delivery is waiting to be tried again."))
    rows = [
        [
            f"<code>{text(each.target)}</code>",
            text(label(each.reason, _LONGEST_REASON)) if each.reason else unknown(None),
            f.count(each.job_count),
            f.count(each.most_try_count),
            f.utc(each.last_ns),
        ]
        for each in failed
    ]
    say = f"{f.plural(sum(each.job_count for each in failed), 'delivery', 'deliveries')} to be tried again."
    return Panel("deliveries", title, say, table(["Target", "Why", "#Jobs", "#.Most tries", "#.Last tried"], rows))


def _definition(key: str) -> str:
    return f'<a class="btn" href="#def-{key}">Definition</a>'
