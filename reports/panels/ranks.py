"""Ranks beside each other: whose own work takes longer, in which steps, and what it costs."""

from __future__ import annotations

from tracelake.reports import format as f
from tracelake.reports.cause_rows import PathShare, RankExcess, RankStat, Straggler, WhatIf
from tracelake.reports.charts import Chart, Values
from tracelake.reports.charts_causes import EXCESS_EDGES, excess_map
from tracelake.reports.data import JobData
from tracelake.reports.html import data_table, pill, state, table, term, text
from tracelake.reports.names import label
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import count, percent, share, time
from tracelake.reports.read_causes import MAX_RANKS
from tracelake.reports.words import CAUSE_WORDS, SCENARIOS, STEP, reason

_TITLE = "Ranks"
_DEFINITION = '<a class="btn" href="#def-own-work">Definition</a>'
_SLOW_HEAD = (
    "Rank",
    "Verdict",
    "#" + term("Slower", "own-work"),
    "#Per step",
    "#" + term("Cost, sum", "own-work"),
    "Cause",
    "#.Excess in the cause",
    "#.Steps",
)


def panels(data: JobData) -> list[Panel]:
    ranks = data.causes.rank_stats
    if len(ranks) < 2:
        return [_none(data, ranks[0].reason if ranks else data.summary.stragglers_reason)]
    scenarios = [_what_if(data.causes.what_if)] if data.causes.what_if else []
    return [_ranks(data, ranks), *scenarios]


def _none(data: JobData, code: str | None) -> Panel:
    words = f"{reason(code).capitalize()}." if code else "Ranks are compared where two or more are recorded."
    title = "Withheld" if code else "Not applicable"
    return Panel("ranks", _TITLE, "Ranks are not compared.", state(title, words, code), "", _DEFINITION)


def _ranks(data: JobData, ranks: tuple[RankStat, ...]) -> Panel:
    slow, excess = data.causes.stragglers, data.causes.rank_excess
    body = ""
    chart: dict[str, Chart] = {}
    if excess:
        drawn = '<div class="chart" data-chart="ranks" role="img" aria-label="Excess of ranks by step"></div>'
        values, labels = _cells(excess, ranks)
        chart = {"ranks": Chart([excess_map(values, labels)])}
        body = _ramp() + drawn + data_table(["rank", "#excess per step", "#relative", "cause"], map(_stat, ranks))
    code = next((r.reason for r in ranks if r.reason), None)
    if slow:
        body += table(_SLOW_HEAD, map(_slow, slow))
    elif code:
        lead = " What the chart shows is a lead, not a verdict." if excess else ""
        body += state("Verdict withheld", f"{reason(code).capitalize()}.{lead}", code)
    body += _path(data.causes.path)
    more = f" The {MAX_RANKS} ranks with the largest excess." if len(ranks) == MAX_RANKS else ""
    foot = f"Own work above the peers' in the same step; of each run of steps the largest.{more}" if excess else ""
    return Panel("ranks", _TITLE, _say(slow, ranks, code), body, "", _DEFINITION, foot, chart)


def _say(slow: tuple[Straggler, ...], ranks: tuple[RankStat, ...], code: str | None) -> str:
    if slow:
        worst = slow[0]
        others = f", and {count(len(slow) - 1, 'own-work')} more" if len(slow) > 1 else ""
        return (
            f"Rank {worst.rank} does {percent(worst.slowdown_ratio, 'own-work')} more work of its own than its peers"
            f"{others}; by the worst all ranks lose {time(worst.cost_sum_ns, 'own-work')} in sum."
        )
    if code:
        return f"{count(len(ranks), 'own-work')} ranks, no verdict."
    return f"None of {count(len(ranks), 'own-work')} ranks is slow."


def _ramp() -> str:
    colours = "".join(f'<i style="background:var(--w{i})"></i>' for i in range(len(EXCESS_EDGES) + 1))
    low, high = f.percent(EXCESS_EDGES[0]), f.percent(EXCESS_EDGES[-1])
    return f'<p class="foot">own work above the peers\': below {low}<span class="ramp">{colours}</span>over {high}</p>'


def _cells(excess: tuple[RankExcess, ...], ranks: tuple[RankStat, ...]) -> tuple[Values, list[str]]:
    names = {r.rank: f"rank {r.rank}" for r in ranks}
    run = max(e.step_count for e in excess)
    values: Values = [
        {
            "y": names[e.rank],
            "x0": e.first_step,
            "x1": e.first_step + max(run, e.step_count),
            "v": round(e.excess_ratio, 5),
            "s": str(e.first_step) if e.step_count == 1 else f"{e.first_step} and the next {e.step_count - 1}",
            "b": f.percent(e.excess_ratio),
        }
        for e in excess
    ]
    return values, list(names.values())


def _stat(r: RankStat) -> list[str]:
    return [
        f"rank {r.rank}",
        f.duration(r.excess_ns) if r.excess_ns is not None else "–",
        f.percent(r.slowdown_ratio) if r.slowdown_ratio is not None else "–",
        CAUSE_WORDS[r.cause] if r.cause else "–",
    ]


def _slow(s: Straggler) -> list[str]:
    where = f" on {text(label(s.node_id, 24))}" if s.node_id else ""
    return [
        f"rank {s.rank}{where}",
        pill("bad", "slow node" if s.verdict == "node" else "slow rank"),
        f.percent(s.slowdown_ratio),
        f.duration(s.excess_ns),
        f.duration(s.cost_sum_ns),
        CAUSE_WORDS[s.cause] if s.cause else "–",
        f.duration(s.cause_excess_ns) if s.cause_excess_ns is not None else "–",
        f.count(s.step_count),
    ]


def _path(rows: tuple[PathShare, ...]) -> str:
    """Which ranks the critical path lies on, and what it is made of there."""
    held = [row for row in rows if row.rank is not None and row.duration_ns]
    if not held:
        code = next((row.reason for row in rows if row.reason), None)
        return f'<p class="foot">No critical path over the ranks: {text(reason(code))}.</p>' if code else ""
    head = (
        term("Critical path on", "critical-path"),
        "#Time",
        "#Of the path",
        *(f"#.{p.word.capitalize()}" for p in STEP),
    )
    return table(head, map(_path_row, held))


def _path_row(p: PathShare) -> list[str]:
    parts = [getattr(p, part.column) for part in STEP]
    known = [share(ns, p.duration_ns or 0) if ns is not None else "–" for ns in parts]
    return [f"rank {p.rank}", f.duration(p.duration_ns or 0), share(p.duration_ns or 0, p.path_ns or 0), *known]


def _what_if(rows: tuple[WhatIf, ...]) -> Panel:
    best = rows[0]
    say = (
        f"Steps would take {percent(best.saved_ratio, 'what-if')} less if {_scenario(best)}:"
        f" {time(best.predicted_ns, 'what-if')} instead of {time(best.baseline_ns, 'what-if')} in sum."
    )
    head = ("If", "#Now", "#" + term("Then", "what-if"), "#Saved", ".Taken for granted")
    body = table(head, map(_scenario_row, rows))
    return Panel("what-if", "What if", say, body, "", '<a class="btn" href="#def-what-if">Definition</a>')


def _scenario(w: WhatIf) -> str:
    return SCENARIOS[w.scenario].format(f"<code>{text(label(w.subject, 24))}</code>")


def _scenario_row(w: WhatIf) -> list[str]:
    saved = f.percent(w.saved_ratio)
    return [_scenario(w), f.duration(w.baseline_ns), f.duration(w.predicted_ns), saved, text(w.assumption)]
