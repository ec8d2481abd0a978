"""How far the capture can be trusted: checks, windows that are not whole, rows set aside."""

from __future__ import annotations

from collections import Counter

from tracelake.reports import format as f
from tracelake.reports.data import JobData
from tracelake.reports.files import checks_file, href
from tracelake.reports.html import data_table, figure, name, pill, state, table, term, text, unknown
from tracelake.reports.page import Panel
from tracelake.reports.record_rows import Publication, Quarantined, Source
from tracelake.reports.words import OUTCOMES, QUALITY, reason

_PASSED = pill("good", "passed")
_WARNING = pill("warn", "warning")
_FAILED = pill("bad", "failed")
_NOT_EVALUATED = pill("off", "not evaluated")
MIN_STEPS = 8

_Check = tuple[str, str, str, str]


def panel(data: JobData) -> Panel:
    s = data.summary
    words = QUALITY.get(s.status, ("warn", text(s.status)))[1]
    rows = _rows_by_fate(data)
    share = s.rows_quarantined_count / s.rows_read_count if s.rows_read_count else 0.0
    say = (
        f"{words.capitalize()}: {f.plural(s.source_count, 'window')}, {figure(f.count(rows['read']), 'rows')} rows "
        f"read, {figure(f.count(s.rows_quarantined_count), 'quarantine')} of them set aside."
    )
    checks = (
        _coverage(data),
        _accounting(rows),
        _quarantine(share),
        _ranks(data),
        _steps(data),
        _samples(data),
        _tables(data.publication),
        _publication(data.publication),
    )
    body = (
        table(["Check", "Result", "#Measured", "#.Limit"], checks)
        + _windows(data)
        + '<h3 class="sub" id="quarantine">Rows set aside</h3>'
        + _set_aside(data)
    )
    link = f'<a class="btn" href="{href(checks_file(data.job.job_id))}">All checks</a>'
    return Panel("quality", "Capture quality", say, body, "", f'{link}<a class="btn" href="#def-status">Definition</a>')


def _rows_by_fate(data: JobData) -> Counter[str]:
    rows: Counter[str] = Counter()
    for g in data.source_groups:
        for fate in ("read", "stored", "quarantined", "deduplicated", "skipped"):
            rows[fate] += getattr(g, f"rows_{fate}")
    return rows


def _coverage(data: JobData) -> _Check:
    ratio, what = data.summary.launch_coverage_ratio, term("Launch coverage", "launch-coverage")
    limit = f"≥{f.NBSP}95{f.NBSP}%"
    if ratio is None:
        return what, _NOT_EVALUATED, "no launches", limit
    low = any(g.gpu_reason == "low_launch_coverage" for g in data.source_groups)
    return what, _FAILED if low or ratio < 0.95 else _PASSED, f.percent(ratio), limit


def _accounting(rows: Counter[str]) -> _Check:
    fates = ("stored", "quarantined", "deduplicated", "skipped")
    parts = " + ".join(f"{f.count(rows[x])} {x}" for x in fates)
    what = f"{term('Rows read', 'rows')} = {parts}"
    right = rows["read"] == sum(rows[x] for x in fates)
    return what, _PASSED if right else _FAILED, f.count(rows["read"]), "exact"


def _quarantine(share: float) -> _Check:
    result = _PASSED if share == 0 else _WARNING if share <= 0.01 else _FAILED
    return term("Rows set aside", "quarantine"), result, f.percent(share), f"≤{f.NBSP}1{f.NBSP}%"


def _ranks(data: JobData) -> _Check:
    s, what = data.summary, term("Ranks", "ranks")
    if s.ranks_expected_count is None:
        return what, _NOT_EVALUATED, f"{f.count(s.ranks_seen_count)} seen, number expected unknown", "all"
    measured = f"{f.count(s.ranks_seen_count)} of {f.count(s.ranks_expected_count)}"
    for words, ranks in (("missing", s.missing_ranks), ("claimed twice", s.conflicting_ranks)):
        if ranks:
            more = ", …" if len(ranks) > 12 else ""
            measured += f"; {words}: {', '.join(map(str, ranks[:12]))}{more}"
    whole = s.ranks_seen_count == s.ranks_expected_count and not s.missing_ranks and not s.conflicting_ranks
    return what, _PASSED if whole else _WARNING, measured, "all"


def _steps(data: JobData) -> _Check:
    n = data.summary.step_count
    left_out = "; ".join(f"{f.count(x.step_count)} rank steps {text(x.status)}" for x in data.steps_left_out)
    measured = f.count(n) + (f"; {left_out}" if left_out else "")
    result = _PASSED if n >= MIN_STEPS else _WARNING if n else _NOT_EVALUATED
    return term("Steps for statistics", "step-time"), result, measured, f"≥{f.NBSP}{MIN_STEPS}"


def _samples(data: JobData) -> _Check:
    s, what = data.summary, term("Samples of utilization", "gpu-util-sampled")
    if s.gpu_util_sampled_coverage_ratio is None:
        cpu = "CPU only" if s.cpu_util_ratio is not None else "none taken"
        return what, _NOT_EVALUATED, cpu, "recorder only"
    valid = s.gpu_util_sampled_coverage_ratio
    return what, _PASSED if valid >= 0.95 else _WARNING, f"{f.percent(valid)} of GPU samples valid", "recorder only"


def _tables(p: Publication) -> _Check:
    """The checks of the tables, by outcome; each stands on a page of its own."""
    counts = [(words, getattr(p, f"{outcome}_count")) for outcome, (_, words) in OUTCOMES.items()]
    measured = ", ".join(f"{f.count(n)} {words}" for words, n in counts if n) or "none"
    result = (
        _FAILED
        if p.failed_count or p.error_count
        else _WARNING
        if p.warned_count
        else _PASSED
        if p.passed_count
        else _NOT_EVALUATED
    )
    return term("Checks of the tables", "check-outcome"), result, measured, "all"


def _publication(p: Publication) -> _Check:
    against = f.plural(len(p.reasons), "reason") if p.reasons else "nothing"
    result = _PASSED if p.is_publishable else pill("bad", "not published")
    return term("Publication", "publication"), result, f"{against} against it", "none"


def _windows(data: JobData) -> str:
    flags = "".join(
        f"<li>{f.plural(x.source_count, 'window')}: {text(reason(x.flag))} <code>{text(x.flag)}</code></li>"
        for x in data.source_flags
    )
    out = f'<h3 class="sub">Marks on windows</h3><ul>{flags}</ul>' if flags else ""
    if data.troubled_sources:
        head = ["Rank", "Node", "Status", "Why", "#Launch coverage", "File"]
        out += '<h3 class="sub">Windows that are not whole, or have no device numbers</h3>' + table(
            head, map(_source, data.troubled_sources)
        )
    return out


def _source(s: Source) -> list[str]:
    codes = [c for c in (s.status_reason, s.gpu_reason) if c]
    return [
        str(s.rank) if s.rank is not None else unknown(None),
        text(s.node_id) if s.node_id else unknown(None),
        text(s.status),
        "<br>".join([f"{text(reason(c))} <code>{text(c)}</code>" for c in codes] + _capture(s)) or "–",
        f.percent(s.launch_coverage_ratio) if s.launch_coverage_ratio is not None else unknown(None),
        name(s.file) if s.file else "–",
    ]


def _capture(s: Source) -> list[str]:
    return [f"recorder: {text(s.capture_reason)}"] if s.capture_reason else []


def _set_aside(data: JobData) -> str:
    rows = data.quarantined
    if not rows:
        return state("Nothing set aside", "Every row that was read could be true and could be stored.")
    head = ["Kind", "File", "#Byte", "#Row", "#Rows", "Reason", "Remedy"]
    total = data.summary.rows_quarantined_count
    more = f'<p class="foot">The first {len(rows)} of {f.count(max(total, len(rows)))}.</p>' if len(rows) >= 50 else ""
    held = ([text(q.kind), _int(q.offset_bytes), _int(q.row_index), name(q.excerpt)] for q in rows)
    excerpts = data_table(["kind", "#byte", "#row", "excerpt"], held, "What they held")
    return table(head, map(_quarantined, rows), "aside") + more + excerpts


def _quarantined(q: Quarantined) -> list[str]:
    rows = f.count(q.rows_count) if q.rows_count is not None else unknown(None)
    why = f"<code>{text(q.reason)}</code>"
    return [text(q.kind), name(q.file), _int(q.offset_bytes), _int(q.row_index), rows, why, text(q.remedy)]


def _int(value: int | None) -> str:
    return f.count(value) if value is not None else "–"
