"""The charts of causes, as Vega-Lite specifications: who came when, and which rank did more in which step."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from tracelake.reports.charts import Spec, Values, done, inline, rows_axis, tips
from tracelake.reports.format import NBSP

EXCESS_EDGES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Edges of the seven steps of the ramp w0 to w6."""


def arrivals(dots: Values, ends: Values, unit: str) -> Spec:
    """When each rank reached each collective, after the first; the last is named.

    dots: y collective, at time after the first, k last or other, r rank, b arrived, w waited. ends: y, at, l label,
    and far where the label stands left of the point. A square-root axis keeps short and long skews readable.
    """
    y = alt.Y("y:N", title=None, sort=None, axis=alt.Axis(labelColor="var(--ink-2)", domain=False, ticks=False))
    scale = alt.Scale(type="sqrt", domain=[0, 1.05 * max(float(str(e["at"])) for e in ends)], nice=False)
    title = f"arrival after the first rank, {unit} (square-root axis)"
    x = alt.X("at:Q", title=title, scale=scale, axis=alt.Axis(format=".3~r", grid=True, tickCount=6))
    rule = alt.Chart(inline(ends)).mark_rule(stroke="var(--comm-host)", strokeWidth=3).encode(y=y, x=x, x2=alt.datum(0))
    kinds = ["last", "other"]
    points = (
        alt.Chart(inline(dots))
        .mark_point(filled=True, size=46, opacity=1, stroke="var(--surface)", strokeWidth=1)
        .encode(
            y=y,
            x=x,
            fill=alt.Fill("k:N", scale=alt.Scale(domain=kinds, range=["var(--bad)", "var(--ink-3)"]), legend=None),
            shape=alt.Shape("k:N", scale=alt.Scale(domain=kinds, range=["diamond", "circle"]), legend=None),
            tooltip=tips(y="collective", r="rank", b="arrived", w="waited"),
        )
    )
    near = [e for e in ends if not e["far"]]
    far = [e for e in ends if e["far"]]
    named = alt.layer(rule, points, *(_named(part, x, y) for part in (near, far) if part))
    return done(named, 26 * len(ends) + 44)


def _named(ends: Values, x: alt.X, y: alt.Y) -> alt.Chart:
    """Labels beside their points, or above and to the left where they would leave the plot."""
    base = alt.Chart(inline(ends))
    if ends[0]["far"]:
        marks = base.mark_text(color="var(--ink)", fontWeight=600, align="right", dx=5, dy=-11)
    else:
        marks = base.mark_text(color="var(--ink)", fontWeight=600, align="left", dx=9)
    named: alt.Chart = marks.encode(y=y, x=x, text="l:N")
    return named


def excess_map(values: Values, labels: Sequence[str]) -> Spec:
    """Ranks by steps, as depth of colour. Values: y rank, x0, x1 steps, v ratio, s steps in words, b excess."""
    scale = alt.Scale(paddingInner=0.14, paddingOuter=0)
    ramp = alt.Scale(
        type="threshold", domain=list(EXCESS_EDGES), range=[f"var(--w{i})" for i in range(len(EXCESS_EDGES) + 1)]
    )
    first, last = (edge(float(str(v[key])) for v in values) for edge, key in ((min, "x0"), (max, "x1")))
    span = alt.Scale(nice=False, domain=[first, last])
    cells = (
        alt.Chart(inline(values))
        .mark_rect(strokeWidth=0)
        .encode(
            x=alt.X("x0:Q", title="step, in time order", scale=span, axis=alt.Axis(tickMinStep=1, format="d")),
            x2="x1:Q",
            y=alt.Y("y:N", title=None, sort=list(labels), scale=scale, axis=rows_axis()),
            color=alt.Color("v:Q", scale=ramp),
            tooltip=tips(y="rank", s="step", b=f"above its{NBSP}peers"),
        )
    )
    return done(cells, (20 if len(labels) <= 24 else 13) * len(labels) + 42)
