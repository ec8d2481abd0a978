"""The charts, as Vega-Lite specifications.

Colours are tokens of theme.css (fill="var(--x)"): the SVG renderer passes them through, so light, dark and print share
one specification. Tokens cannot be mixed, so ramps are threshold scales.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import altair as alt

from tracelake.reports.format import NBSP

Values = list[dict[str, object]]
Spec = dict[str, Any]

FONT = "Inter, system-ui, sans-serif"
EDGES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.97)
"""Edges of the nine steps of the ramp h0 to h8."""
_CHOSEN = alt.NamedData(name="chosen")
_GAP: Spec = {"stroke": "var(--surface)", "strokeWidth": 1}


@dataclass(frozen=True, slots=True)
class Chart:
    """Specifications and, where the reader can choose, the data of each choice in the order of its fields."""

    specs: list[Spec]
    views: dict[str, dict[str, object]] = field(default_factory=dict)


def _theme() -> Spec:
    axis = {
        "labelColor": "var(--ink-3)",
        "titleColor": "var(--ink-3)",
        "labelFont": FONT,
        "titleFont": FONT,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": 400,
        "gridColor": "var(--line)",
        "domainColor": "var(--line-2)",
        "tickColor": "var(--line-2)",
        "tickSize": 4,
        "labelPadding": 5,
        "titlePadding": 8,
    }
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": axis,
        "axisX": {"grid": False},
        "axisY": {"domain": False, "ticks": False},
        "legend": {"disable": True},
        "text": {"font": FONT, "fontSize": 11, "color": "var(--ink-2)"},
        "padding": {"left": 0, "right": 4, "top": 4, "bottom": 0},
    }


def done(chart: alt.Chart | alt.LayerChart | alt.FacetChart, height: int) -> Spec:
    size = alt.AutoSizeParams(type="fit", contains="padding", resize=True)
    sized = chart.properties(width="container", height=height, autosize=size)
    spec: Spec = sized.configure(**_theme()).to_dict()
    return spec


def inline(values: Values) -> alt.InlineData:
    return alt.InlineData(values=values)


def rows_axis() -> alt.Axis:
    return alt.Axis(labelColor="var(--ink-2)", domain=False, ticks=False, labelLimit=150)


def tips(**titles: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:N", title=title.replace("_", " ")) for name, title in titles.items()]


def colours(tokens: Mapping[str, str]) -> alt.Color:
    return alt.Color("c:N", scale=alt.Scale(domain=list(tokens), range=[f"var({t})" for t in tokens.values()]))


def stacked_rows(values: Values, tokens: Mapping[str, str], unit: str) -> Spec:
    """A horizontal bar per row, its parts in fixed order. Values: y row, c part, v length, o order, b time, e share."""
    rows = len({v["y"] for v in values})
    bars = (
        alt.Chart(inline(values))
        .mark_bar(**_GAP)
        .encode(
            y=alt.Y("y:N", title=None, sort=None, axis=rows_axis()),
            x=alt.X("v:Q", title=unit, stack="zero", axis=alt.Axis(grid=True, tickCount=6, domain=False)),
            order="o:Q",
            color=colours(tokens),
            tooltip=tips(y="row", c="class", b="time", e="of row"),
        )
    )
    return done(bars, (26 if rows <= 24 else 16) * rows + 40)


def stacked_columns(values: Values, tokens: Mapping[str, str], unit: str) -> Spec:
    """A column per step, in time order. Values as in stacked_rows, with x for y."""
    bars = (
        alt.Chart(inline(values))
        .mark_bar(**_GAP)
        .encode(
            x=alt.X("x:N", sort=None, title="step", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("v:Q", title=unit, stack="zero", axis=alt.Axis(tickCount=4)),
            order="o:Q",
            color=colours(tokens),
            tooltip=tips(x="step", c="class", b="time", e="of step"),
        )
    )
    return done(bars, 210)


def one_bar(values: Values, tokens: Mapping[str, str]) -> Spec:
    """One whole and its parts. Values: c part, v amount, o order, b time, e share."""
    percent = f"format(100 * datum.value, 'd') + '{NBSP}%'"
    bar = (
        alt.Chart(inline(values))
        .mark_bar(**_GAP)
        .encode(
            x=alt.X("v:Q", stack="normalize", title=None, axis=alt.Axis(labelExpr=percent, tickCount=4, domain=False)),
            order="o:Q",
            color=colours(tokens),
            tooltip=tips(c="class", b="time", e="of the whole"),
        )
    )
    return done(bar, 52)


def heat_strip(labels: Sequence[str], length: float, unit: str, since: str) -> Spec:
    """A strip per row, time to the right, share active as depth. What was not recorded stays hatched, never pale."""
    scale = alt.Scale(paddingInner=0.14, paddingOuter=0)
    y = alt.Y("y:N", title=None, sort=list(labels), scale=scale, axis=rows_axis())
    span = alt.Scale(nice=False, domain=[0, length])
    x = alt.X("x0:Q", title=f"{unit} since {since}", axis=alt.Axis(tickCount=8), scale=span)
    whole: Values = [{"y": label, "x0": 0, "x1": length, "b": "not recorded or withheld"} for label in labels]
    hatch = alt.Chart(inline(whole)).mark_rect(fill="url(#hatch)", strokeWidth=0)
    hatch = hatch.encode(x=x, x2="x1:Q", y=y, tooltip=tips(y="row", b="value"))
    ramp = alt.Scale(type="threshold", domain=list(EDGES), range=[f"var(--h{i})" for i in range(len(EDGES) + 1)])
    digits = "format(100 * datum.v, datum.v < 0.0995 ? '.1f' : '.0f')"
    percent = f"(datum.v > 0 && datum.v < 0.0005 ? '< 0.1' : {digits}) + '{NBSP}%'"
    time = f"format(datum.x0, '.4~r') + ' – ' + format(datum.x1, '.4~r') + '{NBSP}{unit}'"
    cells = (
        alt.Chart(_CHOSEN)
        .transform_calculate(b=percent, w=time, m="metric")
        .mark_rect(strokeWidth=0)
        .encode(
            x=x,
            x2="x1:Q",
            y=y,
            color=alt.Color("v:Q", scale=ramp),
            tooltip=tips(y="row", w="time", m="metric", b="share"),
        )
    )
    both = alt.layer(hatch, cells).add_params(alt.param(name="metric", value=""))
    return done(both, (20 if len(labels) <= 24 else 13) * len(labels) + 42)


def steps_in_time(values: Values, named: Values, median: float, unit: str) -> Spec:
    """Step times in time order, a band around the median. Values: x, v, n name, b time, d of the median, r rank.

    named: x, v, l and m the label's lines, left where it stands left of its dot.
    """
    top = max(float(str(v["v"])) for v in values) * (1.25 if named else 1.08)
    first, last = values[0]["x"], values[-1]["x"]
    x = alt.X(
        "x:Q",
        title="step, in time order",
        axis=alt.Axis(tickMinStep=1, format="d"),
        scale=alt.Scale(domain=[float(str(first)) - 0.5, float(str(last)) + 0.5], nice=False),
    )
    y = alt.Y("v:Q", title=f"step time, {unit}", scale=alt.Scale(domain=[0, top]), axis=alt.Axis(tickCount=4))
    band = (
        alt.Chart(inline([{"lo": median / 1.2, "hi": median * 1.2}]))
        .mark_rect(fill="var(--band)")
        .encode(y=alt.Y("lo:Q"), y2="hi:Q")
    )
    middle = alt.Chart(inline([{"v": median}])).mark_rule(stroke="var(--ink-3)", strokeDash=[3, 3]).encode(y="v:Q")
    base = alt.Chart(inline(values)).encode(x=x, y=y)
    line = base.mark_line(stroke="var(--line-2)", strokeWidth=1)
    dots = base.mark_point(filled=True, opacity=1, fill="var(--compute)", size=40 if len(values) <= 60 else 14).encode(
        tooltip=tips(n="step", b="time", d="of the median", r="slowest")
    )
    labels = [_names_of(part, x, y) for part in _sides(named) if part]
    return done(alt.layer(band, middle, line, dots, *labels), 210)


def _sides(named: Values) -> tuple[Values, Values]:
    return [v for v in named if v["left"]], [v for v in named if not v["left"]]


def _names_of(named: Values, x: alt.X, y: alt.Y) -> alt.LayerChart | alt.FacetChart:
    """A diamond on each dot, and its name in two lines above and beside it, inward of the nearer edge."""
    align: Literal["left", "right"] = "right" if named[0]["left"] else "left"
    shift = -7 if named[0]["left"] else 7
    base = alt.Chart(inline(named)).encode(x=x, y=y)
    mark = base.mark_point(shape="diamond", filled=True, opacity=1, fill="var(--bad)", size=70)
    name = base.mark_text(align=align, dx=shift, dy=-22, color="var(--ink)", fontWeight=600).encode(text="l:N")
    cause = base.mark_text(align=align, dx=shift, dy=-10, color="var(--ink-2)").encode(text="m:N")
    return alt.layer(mark, name, cause)


def _bars_of_bins(data: alt.InlineData | alt.NamedData, what: str, share: str) -> alt.Chart:
    whole = "datum.value % 1 ? '' : format(datum.value, datum.value < 10000 ? 'd' : '~s')"
    bars: alt.Chart = (
        alt.Chart(data)
        .mark_rect(**_GAP)
        .encode(
            color=alt.Color("k:N", scale=alt.Scale(domain=["bin", "rest"], range=["var(--compute)", "var(--unknown)"])),
            x=alt.X(
                "x0:Q",
                title="duration",
                axis=alt.Axis(tickCount=6, labelExpr="datum.label + ' ' + unit", labelOverlap=True),
                scale=alt.Scale(zero=False, nice=True),
            ),
            x2="x1:Q",
            y=alt.Y("n:Q", title="count", axis=alt.Axis(labelExpr=whole, tickCount=4), scale=alt.Scale(zero=True)),
            y2=alt.datum(0),
            tooltip=tips(w="duration", s=what, e=share),
        )
    )
    return bars


def histogram(values: Values, unit: str, what: str) -> Spec:
    """Values: x0, x1 edges, n count, k bin or rest, w the range, s the count and e the share in words."""
    chart = _bars_of_bins(inline(values), what, f"of all {what}")
    return done(chart.add_params(alt.param(name="unit", value=unit)), 210)


def histogram_to_choose() -> Spec:
    """The same over data that the reader chooses, in that data's unit."""
    chart = _bars_of_bins(_CHOSEN, "count", "of all")
    return done(chart.add_params(alt.param(name="unit", value="ms")), 200)
