"""Communication across ranks: who comes when to each collective, and how long the others wait."""

from __future__ import annotations

from collections import defaultdict

from tracelake.reports import format as f
from tracelake.reports.cause_rows import Collective, CollectiveKind, CollectiveWait
from tracelake.reports.charts import Chart, Values
from tracelake.reports.charts_causes import arrivals
from tracelake.reports.data import JobData
from tracelake.reports.html import data_table, figure, state, table, term, text, unknown
from tracelake.reports.names import label
from tracelake.reports.page import Panel
from tracelake.reports.panels.header import gpu_reason
from tracelake.reports.panels.shared import count, percent, time
from tracelake.reports.words import reason

_TITLE = "Communication"
_DEFINITION = '<a class="btn" href="#def-collective-wait">Definition</a>'
MATRIX = 12
"""Up to so many ranks stand one by one in the matrix; of more, those that come last."""
_EDGES = (0.02, 0.1, 0.25, 0.45, 0.65, 0.85)
"""Edges of the ramp, relative to the longest wait shown."""
_ON = (*["var(--ink)"] * 4, "light-dark(var(--ink), var(--surface))", *["var(--surface)"] * 2)
"""The colour of text on each step of the ramp: as both are legible, in light and dark."""
_KINDS_HEAD = (
    "Operation",
    "#Count",
    "Matched",
    "#" + term("Transfer", "collective-wait"),
    "#" + term("Wait", "collective-wait"),
    "#." + term("Bus bandwidth", "bus-bandwidth"),
)
Waits = dict[tuple[str, int], list[CollectiveWait]]


def panels(data: JobData) -> list[Panel]:
    kinds = data.causes.collective_kinds
    if not kinds:
        return [_none(data)]
    waits: Waits = defaultdict(list)
    for wait in data.causes.collective_waits:
        waits[wait.match_group, wait.match_number].append(wait)
    shown = [c for c in data.causes.collectives if len(waits[c.match_group, c.match_number]) > 1]
    if not shown or not max(c.wait_max_ns for c in shown):
        return [Panel("communication", _TITLE, _say(kinds), _unmatched(kinds) + _kinds(kinds), "", _DEFINITION)]
    return [_arrivals(data, kinds, shown, waits), _matrix(kinds, shown, waits)]


def _say(kinds: tuple[CollectiveKind, ...]) -> str:
    recorded, matched = sum(k.collective_count for k in kinds), sum(k.reliable_count for k in kinds)
    collectives = f.plural(recorded, "collective")
    # Of those that are not matched nobody knows either; the sums are about the others.
    transfer = sum(k.transfer_sum_ns for k in kinds if k.transfer_sum_ns is not None)
    wait = sum(k.wait_sum_ns for k in kinds if k.wait_sum_ns is not None)
    if not matched:
        return f"{figure(collectives, 'collective-wait')}, none matched across ranks."
    of_them = "" if matched == recorded else f", {f.count(matched)} of them matched across ranks: in those"
    return (
        f"{figure(collectives, 'collective-wait')}{of_them or ';'} ranks wait"
        f" {time(wait, 'collective-wait')} in sum for the last one, beside {time(transfer, 'collective-wait')} of"
        " transfer."
    )


def _unmatched(kinds: tuple[CollectiveKind, ...]) -> str:
    code = next((k.reason for k in kinds if k.reason), None)
    return state("Waits withheld", f"{reason(code).capitalize()}.", code) if code else ""


def _kinds(kinds: tuple[CollectiveKind, ...]) -> str:
    return table(_KINDS_HEAD, map(_kind, kinds))


def _kind(k: CollectiveKind) -> list[str]:
    bandwidth = k.bus_bandwidth_bytes_per_s
    return [
        text(label(k.operation, 24)),
        f.count(k.collective_count),
        f.count(k.reliable_count) if k.reliable_count else unknown(k.reason, "none"),
        f.duration(k.transfer_sum_ns) if k.transfer_sum_ns is not None else "–",
        f.duration(k.wait_sum_ns) if k.wait_sum_ns is not None else "–",
        f.rate(int(bandwidth), 10**9) if bandwidth else "–",
    ]


def _name(c: Collective, number: int) -> str:
    return f"{number + 1}. {label(c.operation, 13)} #{c.match_number}"


def _arrivals(data: JobData, kinds: tuple[CollectiveKind, ...], shown: list[Collective], waits: Waits) -> Panel:
    longest = max(c.wait_max_ns for c in shown)
    scale, unit = f.axis_unit(longest)
    dots: Values = []
    ends: Values = []
    for number, c in enumerate(shown):
        y, last = _name(c, number), f"rank {c.last_rank} +{f.duration(c.wait_max_ns)}"
        far = c.wait_max_ns > 0.5 * longest
        ends.append({"y": y, "at": round(c.wait_max_ns / scale, 6), "l": last, "far": far})
        dots += [_dot(y, c, w, scale) for w in waits[c.match_group, c.match_number]]
    chart = Chart([arrivals(dots, ends, unit)])
    rows = ([str(d["y"]), str(d["r"]), str(d["b"]), str(d["w"])] for d in dots)
    body = (
        '<div class="chart" data-chart="communication" role="img" aria-label="Arrival of each rank"></div>'
        + data_table(["collective", "rank", "#arrived", "#waited"], (list(map(text, row)) for row in rows))
    )
    foot = f"The {len(shown)} collectives with the longest waits. {_clocks(data)}"
    return Panel("communication", _TITLE, _say(kinds), body, "c6", _DEFINITION, foot, {"communication": chart})


def _dot(y: str, c: Collective, w: CollectiveWait, scale: int) -> dict[str, object]:
    at = c.wait_max_ns - w.wait_ns
    return {
        "y": y,
        "at": round(at / scale, 6),
        "k": "last" if w.rank == c.last_rank else "other",
        "r": f"rank {w.rank}",
        "b": f"+{f.duration(at)}",
        "w": f.duration(w.wait_ns),
    }


def _clocks(data: JobData) -> str:
    parts = []
    for c in data.causes.clocks:
        windows = f.plural(c.window_count, "window")
        if c.method == "none":
            parts.append(f"{windows} not aligned <code>{text(c.reason or '')}</code>")
        elif c.method == "collective_ends":
            residual = f", residual at most {f.duration(c.residual_max_ns)}" if c.residual_max_ns is not None else ""
            off = f" at most {f.duration(c.offset_max_ns)} off" if c.offset_max_ns is not None else ""
            parts.append(f"{windows}{off}{residual}")
        else:
            parts.append(f"{windows} of the reference's host")
    return f"{term('Clocks', 'clock-alignment')}: {'; '.join(parts)}." if parts else ""


def _matrix(kinds: tuple[CollectiveKind, ...], shown: list[Collective], waits: Waits) -> Panel:
    """Waits of each rank in each collective; the darker the longer, and the last one by name."""
    lasts: dict[int, int] = defaultdict(int)
    for each in waits.values():
        for w in each:
            lasts[w.rank] += 0
    for c in shown:
        lasts[c.last_rank] += c.wait_sum_ns
    ranks = sorted(sorted(lasts, key=lambda r: (-lasts[r], r))[:MATRIX])
    longest = max(c.wait_max_ns for c in shown)
    scale, unit = f.axis_unit(longest)
    head = "".join(f'<th scope="col">r{r}</th>' for r in ranks)
    body = "".join(
        f'<tr><th scope="row">{text(_name(c, i))}</th>{_waits(c, waits, ranks, longest, scale)}'
        f"<td>{f.three_digits(c.wait_sum_ns / scale)}</td></tr>"
        for i, c in enumerate(shown)
    )
    worst = max(lasts, key=lambda r: (lasts[r], -r))
    of_all = lasts[worst] / max(1, sum(c.wait_sum_ns for c in shown))
    say = (
        f"Rank {count(worst, 'collective-wait')} is the one waited for in {percent(of_all, 'collective-wait')} of the"
        " waiting below: a lead, not a verdict."
    )
    more = f" The {MATRIX} ranks that are waited for most." if len(lasts) > MATRIX else ""
    foot = f"Own duration less the shortest over ranks. Darker is longer; “last” waited for nobody.{more}"
    grid = (
        f'<div class="tw"><table class="matrix"><thead><tr><th scope="col">collective</th>{head}<th scope="col">sum'
        f"</th></tr></thead><tbody>{body}</tbody></table></div>"
    )
    return Panel("waits", f"Wait per rank, {unit}", say, grid + _kinds(kinds), "c6", _DEFINITION, foot)


def _waits(c: Collective, waits: Waits, ranks: list[int], longest: int, scale: int) -> str:
    own = {w.rank: w.wait_ns for w in waits[c.match_group, c.match_number]}
    return "".join(_wait(own.get(r), r == c.last_rank, longest, scale) for r in ranks)


def _wait(ns: int | None, is_last: bool, longest: int, scale: int) -> str:
    if ns is None:
        return '<td class="muted">–</td>'
    if is_last:
        return "<td><b>last</b></td>"
    depth = sum(ns / longest >= edge for edge in _EDGES)
    return f'<td class="w" style="background:var(--w{depth});color:{_ON[depth]}">{f.three_digits(ns / scale)}</td>'


def _none(data: JobData) -> Panel:
    if data.summary.exposed_comm_ns is None:
        code = gpu_reason(data)
        body = state("Withheld", f"{reason(code).capitalize()}.", code, hatched=True)
        return Panel("communication", _TITLE, "Communication is unknown.", body, "", _DEFINITION)
    words = "No communication kernel of a job with several known ranks: there is nothing to compare."
    return Panel("communication", _TITLE, "No collectives.", state("Not applicable", words), "", _DEFINITION)
