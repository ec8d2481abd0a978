"""Charts of the pages about many jobs, in the manner of charts.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from tracelake.reports import charts
from tracelake.reports.charts import Spec, Values
from tracelake.reports.format import NBSP


def shares_in_time(values: Values, tokens: Mapping[str, str]) -> Spec:
    """A column per day, its parts in fixed order. Values: x day, c part, v share, o order, b time, e share in words."""
    percent = f"format(100 * datum.value, 'd') + '{NBSP}%'"
    bars = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar(stroke="var(--surface)", strokeWidth=1)
        .encode(
            x=alt.X("x:O", title=None, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("v:Q", title="share of GPU-hours", stack="zero", scale=alt.Scale(domain=[0, 1]),
                    axis=alt.Axis(tickCount=4, labelExpr=percent)),
            order="o:Q",
            color=charts.colours(tokens),
            tooltip=charts.tips(x="day", c="cause", b="time", e="of the day"),
        )
    )  # fmt: skip
    return charts.done(bars, 230)


def amounts_in_time(days: Sequence[str], values: Values, tokens: Mapping[str, str], title: str) -> Spec:
    """A column per day, its parts in fixed order; a day without any keeps its place.

    Values: x day, c part, v amount, o order, b the amount in words.
    """
    bars = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar(stroke="var(--surface)", strokeWidth=1)
        .encode(
            x=alt.X("x:O", title=None, scale=alt.Scale(domain=list(days)),
                    axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("v:Q", title=title, stack="zero", axis=alt.Axis(tickCount=4, format="~s")),
            order="o:Q",
            color=charts.colours(tokens),
            tooltip=charts.tips(x="day", c="part", b="amount"),
        )
    )  # fmt: skip
    return charts.done(bars, 200)
