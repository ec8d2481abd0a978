"""The job report: one self-contained page about one attempt of one job."""

from __future__ import annotations

from tracelake.reports import downloads
from tracelake.reports import format as f
from tracelake.reports.data import JobData
from tracelake.reports.html import text
from tracelake.reports.page import Page, Panel, definitions, foot
from tracelake.reports.panels import annotations as annotation_panel
from tracelake.reports.panels import (
    changes,
    communication,
    devices,
    findings,
    goodput,
    header,
    idle,
    info,
    kernels,
    launches,
    memory,
    outliers,
    precision,
    quality,
    ranks,
    samples,
    steps,
    utilization,
)

_RAIL = (
    ("Result", (("findings", "Findings"), ("figures", "Key figures"))),
    (
        "Devices",
        (
            ("devices", "Device time"),
            ("idle", "Idle by cause"),
            ("goodput", "Goodput"),
            ("utilization", "Utilization"),
            ("communication", "Communication"),
            ("ranks", "Ranks"),
            ("samples", "Power and memory"),
        ),
    ),
    (
        "Program",
        (
            ("steps", "Steps"),
            ("outliers", "Outlier steps"),
            ("kernels", "Kernels"),
            ("precision", "Precision"),
            ("memory", "Memory"),
            ("launches", "Launches"),
            ("annotations", "Annotations"),
        ),
    ),
    (
        "Record",
        (("job", "Job"), ("changes", "What changed"), ("quality", "Capture quality"), ("definitions", "Definitions")),
    ),
)


def job_page(data: JobData, *, made_ns: int, timeline: str = "") -> str:
    """The page as HTML. made_ns is the time that its foot states, timeline the address of one that was made."""
    beside = [memory.panel(data), launches.panel(data)]
    before: list[Panel] = [
        *devices.panels(data),
        idle.panel(data),
        goodput.panel(data),
        utilization.panel(data),
        *communication.panels(data),
        *steps.panels(data),
        outliers.panel(data),
        *ranks.panels(data),
        samples.panel(data),
        kernels.panel(data),
    ]
    after = [annotation_panel.panel(data), info.panel(data), changes.panel(data), quality.panel(data), definitions()]
    middle = precision.panel(data)
    stack = f'<div class="c7 stack">{"".join(p.html() for p in beside)}</div>'
    body = (
        header.title(data)
        + header.publication(data.job, data.publication)
        + header.banner(data)
        + f'<div class="grid">{findings.section(data)}{header.key_figures(data)}'
        + f"{''.join(p.html() for p in before)}{middle.html()}{stack}"
        + f"{''.join(p.html() for p in after)}</div>{_foot(data, made_ns)}"
    )
    charts = {key: chart for p in (*before, middle, *beside, *after) for key, chart in p.charts.items()}
    crumbs = ("Jobs", *((data.job.project,) if data.job.project else ()), data.job.job_id)
    return Page(data.job.job_id, crumbs, _RAIL, body, charts, controls=_controls(data, timeline)).html()


def _controls(data: JobData, timeline: str) -> str:
    shown = f'<a class="btn go" href="{text(timeline)}">Timeline</a>' if timeline else ""
    return downloads.links(data) + shown


def _foot(data: JobData, made_ns: int) -> str:
    return foot(
        f"metric_version {data.summary.metric_version}",
        f"made {f.utc(made_ns)}",
        "All times UTC. 1 s = 1 000 ms. KiB = 1 024 B.",
    )
