"""The fleet report: where one day's GPU-hours went, what to do first, and what changed."""

from __future__ import annotations

import datetime as dt

from tracelake.reports import fleet_panels as panels
from tracelake.reports import format as f
from tracelake.reports.fleet_data import FleetData
from tracelake.reports.page import Page, definitions, foot
from tracelake.reports.panels import fleet_goodput

_RAIL = (
    ("Fleet", (("figures", "Key figures"), ("hours", "GPU-hours"), ("goodput", "Goodput"), ("savings", "Top savings"))),
    (
        "Changes",
        (("changes", "Regressions"), ("nodes", "Suspect nodes"), ("groups", "By project"), ("trend", "30 days")),
    ),
    ("Record", (("definitions", "Definitions"),)),
)
_DEFINED = ("fleet", "fleet-cause", "goodput", "findings", "regression", "suspect-node")


def fleet_page(data: FleetData, *, made_ns: int) -> str:
    """The page as HTML. made_ns is the time that its foot states."""
    shown = [
        panels.hours(data), fleet_goodput.panel(data), panels.savings(data), panels.changes(data), panels.nodes(data),
        panels.groups(data), panels.trend(data), definitions(_DEFINED),
    ]  # fmt: skip
    day = dt.date.fromisoformat(data.day)
    o = data.overview
    meta = (
        f"<span>00:00 to 24:00 <b>UTC</b></span><span><b>{f.plural(o.job_count, 'job')}</b></span>"
        f"<span>{f.plural(o.node_count, 'node')}</span>"
    )
    body = (
        f'<div class="title"><h1>Fleet, {day:%A} {day.day} {day:%B} {day.year}</h1></div><p class="meta">{meta}</p>'
        f'<div class="grid">{panels.figures(data)}{"".join(p.html() for p in shown)}</div>'
        + foot(f"made {f.utc(made_ns)}", "All times UTC.", "1 GPU-hour = one device for one hour.")
    )
    charts = {key: chart for p in shown for key, chart in p.charts.items()}
    return Page(f"Fleet {data.day}", ("Fleet", data.day), _RAIL, body, charts).html()
