"""The page of a job's checks: what was checked in every table, what came of it, whether the job may be published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tracelake.reports import format as f
from tracelake.reports import read_checks
from tracelake.reports.data import JobData
from tracelake.reports.files import href, job_file
from tracelake.reports.html import data_table, pill, state, table, term, text, unknown
from tracelake.reports.names import label
from tracelake.reports.page import Page, Panel, definitions, foot
from tracelake.reports.panels import header
from tracelake.reports.record_rows import Checked, Job, Publication, SetAside
from tracelake.reports.sql import Query, literals
from tracelake.reports.words import OUTCOMES
from tracelake.schemas import catalog

_KINDS = {
    "rows": "The table has rows",
    "share": "Share of rows that fail",
    "key": "No key comes twice",
    "identity": "Identities of each row",
    "row": "Row checks",
}
_NOT_PASSED = ("failed", "error", "warned")
_LAYERS = {"normalized": "Events and windows", "aggregates": "Ledgers and statistics"}
_DEFINED = ("check", "check-outcome", "publication", "quarantine")
_RAIL = (
    ("Result", (("outcomes", "Outcomes"), ("not-passed", "Not passed"))),
    ("Tables", tuple(_LAYERS.items())),
    ("Record", (("aside", "Rows set aside"), ("definitions", "Definitions"))),
)


@dataclass(frozen=True, slots=True)
class ChecksData:
    """Everything on the page, as plain rows; `windows` are checks that single windows break."""

    job: Job
    publication: Publication
    checks: tuple[Checked, ...]
    windows: tuple[Checked, ...]
    aside: tuple[SetAside, ...]


def checks_data(query: Query, jobs: Sequence[JobData]) -> dict[str, ChecksData]:
    """Read the checks of jobs, with as many queries as for one."""
    mine = f"job_id IN {literals(data.job.job_id for data in jobs)}"
    whole = read_checks.checks(query, mine, of_windows=False)
    windows = read_checks.checks(query, mine, of_windows=True)
    aside = read_checks.set_aside(query, mine)
    return {
        job_id: ChecksData(
            data.job, data.publication, whole.get(job_id, ()), windows.get(job_id, ()), aside.get(job_id, ())
        )
        for data in jobs
        for job_id in [data.job.job_id]
    }


def checks_page(data: ChecksData, *, made_ns: int) -> str:
    """The page as HTML. made_ns is the time that its foot states."""
    layers = [_layer(data, layer, title) for layer, title in _LAYERS.items()]
    panels = [_outcomes(data), _trouble(data), *layers, _aside(data), definitions(_DEFINED)]
    body = (
        _title(data)
        + header.publication(data.job, data.publication)
        + f'<div class="grid">{"".join(panel.html() for panel in panels)}</div>'
        + foot(f"made {f.utc(made_ns)}", "All times UTC.")
    )
    crumbs = ("Jobs", data.job.job_id, "Checks")
    return Page(f"Checks of {data.job.job_id}", crumbs, _RAIL, body, {}).html()


def _title(data: ChecksData) -> str:
    may = data.publication.is_publishable
    verdict = pill("good", "may be published") if may else pill("bad", "not published")
    tables = len({check.table_name for check in data.checks})
    facts = (
        f"<b>{f.plural(len(data.checks), 'check')}</b> of {f.plural(tables, 'table')}",
        f'<a href="{href(job_file(data.job.job_id))}">Report of the job</a>',
    )
    meta = "".join(f"<span>{fact}</span>" for fact in facts)
    return f'<div class="title"><h1>Checks of {text(data.job.job_id)}</h1>{verdict}</div><p class="meta">{meta}</p>'


def _counts(checks: Sequence[Checked]) -> str:
    found = Counter(check.outcome for check in checks)
    return ", ".join(f"{f.count(found[each])} {words}" for each, (_, words) in OUTCOMES.items() if found[each])


def _outcomes(data: ChecksData) -> Panel:
    say = (
        f"{_counts(data.checks)}."
        if data.checks
        else "The job was not checked yet; the next run that takes it in does."
    )
    # The longest column goes on narrow screens; the sentence has its sum.
    narrow = {"not_evaluated": "."}
    head = ["What is checked", *(f"#{narrow.get(o, '')}{words.capitalize()}" for o, (_, words) in OUTCOMES.items())]
    rows = []
    for kind, words in _KINDS.items():
        found = Counter(check.outcome for check in data.checks if check.kind == kind)
        rows.append([words, *(f.count(found[outcome]) if found[outcome] else "–" for outcome in OUTCOMES)])
    control = '<a class="btn" href="#def-publication">What stops a publication</a>'
    return Panel("outcomes", term("Outcomes", "check-outcome"), say, table(head, rows), controls=control)


def _trouble(data: ChecksData) -> Panel:
    broken = [check for check in data.checks if check.outcome in _NOT_PASSED]
    broken.sort(key=lambda check: _NOT_PASSED.index(check.outcome))
    if not broken:
        return Panel(
            "not-passed", "Not passed", "", state("Every check held", "Those that are not evaluated are below.")
        )
    head = ["Check", "Outcome", "#Measured", "#.Limit", "#.Failing rows", "#.Windows", ".Why"]
    windows = Counter((check.table_name, check.check_id) for check in data.windows)
    rows = []
    for check in broken:
        what, *rest = _cells(check)
        where = f'<div class="muted">in <span class="mono">{text(check.table_name)}</span></div>'
        count = windows[check.table_name, check.check_id]
        rows.append(
            [what + where, *rest, f.count(count) if count else "–", text(check.reason) if check.reason else "–"]
        )
    say = f"{f.plural(len(broken), 'check')} did not pass."
    return Panel("not-passed", "Not passed", say, table(head, rows) + _broken_windows(data.windows))


def _broken_windows(windows: Sequence[Checked]) -> str:
    if not windows:
        return ""
    head = ["window", "table", "check", "#failing rows", "#rows"]
    rows = (
        [
            f'<span class="mono">{text(label(w.source_id or "", 40))}</span>',
            f"<code>{text(w.table_name)}</code>",
            f"<code>{text(w.check_id)}</code>",
            f.count(w.failing_count) if w.failing_count is not None else "–",
            f.count(w.row_count),
        ]
        for w in windows
    )
    return data_table(head, rows, "The windows that break them")


def _layer(data: ChecksData, layer: str, title: str) -> Panel:
    checks = [check for check in data.checks if check.table_name.startswith(f"{layer}.")]
    body = "".join(_table(name, list(found)) for name, found in groupby(checks, lambda check: check.table_name))
    return Panel(layer, title, _counts(checks), body or state("Not checked", "No run has checked these tables yet."))


def _table(name: str, checks: Sequence[Checked]) -> str:
    """A table's checks, all of them, folded away under their counts."""
    order = list(_KINDS)
    shown = sorted(checks, key=lambda check: (check.outcome not in _NOT_PASSED, order.index(check.kind)))
    head = ["Check", "Outcome", "#Measured", "#Limit", "#Failing rows"]
    title = f"<code>{text(name)}</code> {f.plural(checks[0].row_count, 'row')}: {_counts(checks)}"
    return data_table(head, map(_cells, shown), title)


def _cells(check: Checked) -> list[str]:
    kind, words = OUTCOMES[check.outcome]
    return [_what(check), pill(kind, words), _measured(check), _limit(check), _failing(check)]


def _what(check: Checked) -> str:
    """A check's id, and what it demands where the id does not say."""
    code = f"<code>{text(check.check_id)}</code>"
    demands = _demands(check)
    warn = " (warns)" if check.severity == "warn" else ""
    return code + (f' <span class="muted">{demands}</span>' if demands else "") + warn


def _demands(check: Checked) -> str:
    declared = catalog.tables().get(check.table_name)
    if declared is None:
        return ""
    if check.kind == "key":
        return text(", ".join(declared.key))
    return next((text(each.predicate) for each in declared.identities if each.id == check.check_id), "")


def _measured(check: Checked) -> str:
    return unknown(None, "–") if check.measured is None else _number(check, check.measured)


def _number(check: Checked, value: float) -> str:
    return f.percent(value) if check.kind == "share" else f.count(round(value))


def _limit(check: Checked) -> str:
    if check.limit_min is not None:
        return f"≥{f.NBSP}{_number(check, check.limit_min)}"
    return f"≤{f.NBSP}{_number(check, check.limit_max)}" if check.limit_max is not None else "–"


def _failing(check: Checked) -> str:
    """Rows that break a check. Those of a row check that fails are set aside, and listed there."""
    if check.failing_count is None:
        return "–"
    shown = f.count(check.failing_count)
    is_aside = check.failing_count and check.kind in ("row", "share") and check.severity == "fail"
    return f'<a href="#aside">{shown}</a>' if is_aside else shown


def _aside(data: ChecksData) -> Panel:
    title = term("Rows set aside", "quarantine")
    if not data.aside:
        return Panel("aside", title, "", state("Nothing set aside", "Every row could be read and held."))
    head = ["Table or kind", "Reason", "#Entries", "#Rows", ".Remedy"]
    rows = [
        [
            f"<code>{text(each.kind)}</code>",
            f"<code>{text(each.reason)}</code>",
            f.count(each.entry_count),
            f.count(each.rows_count) if each.rows_count is not None else unknown(None),
            text(each.remedy),
        ]
        for each in data.aside
    ]
    link = href(job_file(data.job.job_id), "quarantine")
    note = f'<a href="{link}">The first of them, with their place</a>; <code>tracelake quarantine list</code> has all.'
    return Panel("aside", title, "", table(head, rows, "aside"), foot=note)
