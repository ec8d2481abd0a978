"""A histogram for any annotation that the reader picks."""

from __future__ import annotations

from html import escape

from tracelake.reports import format as f
from tracelake.reports.charts import Chart, histogram_to_choose
from tracelake.reports.data import JobData
from tracelake.reports.html import data_table, name, state, table, term, unknown
from tracelake.reports.metric_rows import Annotation, Bin
from tracelake.reports.names import label
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import bin_values

_LISTED = 8
_FOOT = "A grey last bar stands for all that is far longer; its range is in its tip."


def panel(data: JobData) -> Panel:
    bins: dict[str, list[Bin]] = {}
    for b in data.annotation_bins:
        bins.setdefault(b.name, []).append(Bin(b.low_ns, b.high_ns, b.annotation_count))
    shown = [a for a in data.annotations if a.name in bins]
    if not shown:
        words = (
            "No annotation was recorded. The recorder's annotate() and the profiler's record_function() name ranges."
        )
        return Panel(
            "annotations", "Annotations", "No annotations.", state("Nothing recorded", words, "no_annotations"), "c7"
        )
    first = next((i for i, a in enumerate(shown) if not a.is_step), 0)
    options = "".join(_option(i, a, i == first) for i, a in enumerate(shown))
    select = f'<select data-for="annotations" aria-label="Annotation">{options}</select>'
    say = f'<span id="annotations-say">{escape(_say(shown[first]))}</span>'
    body = (
        '<div class="chart" data-chart="annotations" role="img" aria-label="Durations of the chosen annotation"></div>'
    )
    chart = Chart([histogram_to_choose()], {str(i): _view(bins[a.name]) for i, a in enumerate(shown)})
    controls = f'{select}<a class="btn" href="#def-annotation">Definition</a>'
    return Panel("annotations", "Annotations", say, body + _table(data), "c7", controls, _FOOT, {"annotations": chart})


def _option(number: int, a: Annotation, selected: bool) -> str:
    chosen = " selected" if selected else ""
    return f'<option value="{number}" data-say="{escape(_say(a))}"{chosen}>{escape(label(a.name, 64))}</option>'


def _say(a: Annotation) -> str:
    if a.duration_sum_ns is None or a.duration_p50_ns is None or a.duration_p99_ns is None or a.duration_max_ns is None:
        return f"{f.plural(a.annotation_count, 'time')}, never closed: durations are unknown."
    open_ = f" {f.plural(a.open_count, 'was', 'were')} never closed." if a.open_count else ""
    times = f"{f.plural(a.annotation_count, 'time')}, {f.duration(a.duration_sum_ns)} in sum; "
    spread = f"median {f.duration(a.duration_p50_ns)}, p99 {f.duration(a.duration_p99_ns)}, longest "
    return f"{times}{spread}{f.duration(a.duration_max_ns)}.{open_}"


def _view(bins: list[Bin]) -> dict[str, object]:
    scale, unit = f.axis_unit(bins[-1].low_ns or bins[-1].high_ns)
    values = bin_values(bins, scale)
    return {"fields": list(values[0]), "rows": [list(v.values()) for v in values], "params": {"unit": unit}}


def _table(data: JobData) -> str:
    """The ones with the most time at once, the others on demand."""
    head = ["Annotation", "#Count", "#Time, sum", "#.Median", "#.p99", "#" + term("GPU time", "gpu-time")]
    rows = [
        [
            name(a.name), f.count(a.annotation_count), _ns(a.duration_sum_ns), _ns(a.duration_p50_ns),
            _ns(a.duration_p99_ns), _ns(a.gpu_time_ns),
        ]
        for a in data.annotations
    ]  # fmt: skip
    more = data_table(head, rows[_LISTED:], f"{len(rows) - _LISTED} more annotations") if len(rows) > _LISTED else ""
    return table(head, rows[:_LISTED], "named") + more


def _ns(value: int | None) -> str:
    return unknown(None) if value is None else f.duration(value)
