"""Utilization over time: a strip per device or node, the metric to choose."""

from __future__ import annotations

from collections.abc import Sequence

from tracelake.reports import format as f
from tracelake.reports.charts import EDGES, Chart, Spec, heat_strip
from tracelake.reports.data import JobData
from tracelake.reports.html import data_table, state, term, text
from tracelake.reports.metric_rows import Cell
from tracelake.reports.names import label
from tracelake.reports.page import Panel
from tracelake.reports.panels.header import gpu_reason
from tracelake.reports.panels.shared import LABEL, device_labels, percent
from tracelake.reports.words import METRICS, reason

_CHOICES = tuple((kind, metric) for kind in ("device", "node") for metric in METRICS)
_ABSENT = {("device", "cpu_util_ratio")}
"""CPUs belong to nodes; there is nothing to choose."""


def panel(data: JobData) -> Panel:
    title = "Utilization over time"
    known = {
        c: [x for x in data.cells if (x.entity_kind, x.metric) == c and x.value_ratio is not None] for c in _CHOICES
    }
    start, end = data.summary.started_ns, data.summary.ended_ns
    if start is None or end is None or not any(known.values()):
        code = gpu_reason(data)
        words = f"No metric could be computed over time. {reason(code).capitalize()}."
        return Panel("utilization", title, "Utilization is unknown.", state("Withheld", words, code, hatched=True))
    first = next(c for c in _CHOICES if known[c])
    chart, rows = _chart(data, known, start, end)
    body = (
        f'<ul class="lg"><li>0{f.NBSP}%<span class="ramp">{_RAMP}</span>100{f.NBSP}% of the bucket</li>'
        '<li><span class="sw hatch"></span>not recorded or withheld</li></ul>'
        '<div class="chart" data-chart="utilization" role="img" aria-label="Share of each time bucket, per row"></div>'
        + data_table(["by", "row", "metric", "#mean", "#lowest", "#highest", "#buckets"], rows)
    )
    buckets = max(
        len({x.start_ns for x in cells if x.entity_id == cells[0].entity_id}) for cells in known.values() if cells
    )
    foot = f"Up to {f.count(buckets)} buckets per row. {_not_sampled(known)}"
    return Panel(
        "utilization", title, _say(first, known[first]), body, "", _select(known, first), foot, {"utilization": chart}
    )


_RAMP = "".join(f'<i style="background:var(--h{i})"></i>' for i in range(len(EDGES) + 1))


def _not_sampled(known: dict[tuple[str, str], list[Cell]]) -> str:
    if known["node", "cpu_util_ratio"]:
        return ""
    return (
        "CPU utilization: nothing recorded (<code>not_sampled</code>); the recorder samples it, imported traces do not."
    )


def _say(choice: tuple[str, str], cells: Sequence[Cell]) -> str:
    words, definition = METRICS[choice[1]]
    lengths = [(c.end_ns - c.start_ns) for c in cells]
    mean = sum((c.value_ratio or 0) * n for c, n in zip(cells, lengths, strict=True)) / max(1, sum(lengths))
    empty = sum(n for c, n in zip(cells, lengths, strict=True) if c.value_ratio == 0)
    share = empty / max(1, sum(lengths))
    return (
        f"{term(words, definition)} is {percent(mean, definition)} on average over the rows shown; it is 0 for whole "
        f"buckets in {percent(share, 'buckets')} of their time."
    )


def _select(known: dict[tuple[str, str], list[Cell]], first: tuple[str, str]) -> str:
    groups = []
    for kind in ("device", "node"):
        options = []
        for metric, (words, _) in METRICS.items():
            choice = (kind, metric)
            if choice in _ABSENT:
                continue
            off = "" if known[choice] else " disabled"
            chosen = " selected" if choice == first else ""
            missing = "" if known[choice] else " (not recorded)"
            options.append(f'<option value="{kind}:{metric}"{off}{chosen}>{words} per {kind}{missing}</option>')
        groups.append(f'<optgroup label="by {kind}">{"".join(options)}</optgroup>')
    select = f'<select data-for="utilization" aria-label="Metric and rows">{"".join(groups)}</select>'
    return f'<label class="muted">show {select}</label><a class="btn" href="#def-buckets">Definition</a>'


def _chart(
    data: JobData, known: dict[tuple[str, str], list[Cell]], start: int, end: int
) -> tuple[Chart, list[list[str]]]:
    scale, unit = f.axis_unit(end - start)
    specs: list[Spec] = []
    views: dict[str, dict[str, object]] = {}
    table: list[list[str]] = []
    for kind in ("device", "node"):
        names = _row_names(data, kind)
        if not names:
            continue
        labels, spec = list(names.values()), len(specs)
        specs.append(heat_strip(labels, (end - start) / scale, unit, f.utc(start, digits=3)))
        for metric, (words, _) in METRICS.items():
            by_row: dict[str, list[Cell]] = {entity: [] for entity in names}
            for c in known[kind, metric]:
                by_row.get(c.entity_id, []).append(c)
            cells = [_cell(i, c, start, end, scale) for i, row in enumerate(by_row.values()) for c in row]
            view = {"spec": spec, "fields": ["y", "x0", "x1", "v"], "labels": labels, "rows": cells}
            views[f"{kind}:{metric}"] = view | {"params": {"metric": words}}
            table += [_summary(kind, names[entity], words, row) for entity, row in by_row.items() if row]
    return Chart(specs, views), table


def _cell(row: int, cell: Cell, start: int, end: int, scale: int) -> list[float]:
    """A node's buckets lie on a grid of their own and may reach past the window: they are drawn inside it."""
    low, high = (round((min(max(t, start), end) - start) / scale, 6) for t in (cell.start_ns, cell.end_ns))
    return [row, low, high, round(cell.value_ratio or 0.0, 4)]


def _summary(kind: str, row: str, words: str, cells: Sequence[Cell]) -> list[str]:
    shares = [c.value_ratio or 0.0 for c in cells]
    mean = sum(v * (c.end_ns - c.start_ns) for v, c in zip(shares, cells, strict=True))
    mean /= max(1, sum(c.end_ns - c.start_ns for c in cells))
    return [
        kind,
        text(row),
        words,
        f.percent(mean),
        f.percent(min(shares)),
        f.percent(max(shares)),
        f.count(len(cells)),
    ]


def _row_names(data: JobData, kind: str) -> dict[str, str]:
    """Labels of the entities that have any cell, in the page's order of rows."""
    present = {c.entity_id: c.node_id for c in data.cells if c.entity_kind == kind}
    if kind == "device":
        labels = zip(data.devices, device_labels(data.devices), strict=True)
        return {d.device_id: words for d, words in labels if d.device_id in present and d.device_id is not None}
    return {entity: label(node or "node not named", LABEL) for entity, node in sorted(present.items())}
