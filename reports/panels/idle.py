"""Why devices were idle: the gaps in their activity by what they waited for."""

from __future__ import annotations

from collections import Counter

from tracelake.reports import format as f
from tracelake.reports.charts import Chart, Values, stacked_rows
from tracelake.reports.data import JobData
from tracelake.reports.html import data_table, legend, state, term, text
from tracelake.reports.page import Panel
from tracelake.reports.panels.header import gpu_reason
from tracelake.reports.panels.shared import device_labels, percent, share, time, tokens, values
from tracelake.reports.words import IDLE, reason

_TITLE = "Why devices were idle"
_DEFINITION = '<a class="btn" href="#def-idle-causes">Definition</a>'


def panel(data: JobData) -> Panel:
    by_device: dict[str, Counter[str]] = {}
    for row in data.idle_causes:
        by_device.setdefault(row.device_id, Counter())[row.cause] += row.idle_ns
    named = zip(device_labels(data.devices), data.devices, strict=True)
    shown = [(label, by_device[d.device_id]) for label, d in named if d.device_id in by_device]
    total: Counter[str] = sum((causes for _, causes in shown), Counter())
    whole = total.total()
    if not whole:
        return _none(data)
    scale, unit = f.axis_unit(max(causes.total() for _, causes in shown))
    rows: Values = [v for label, causes in shown for v in values(("y", label), causes, causes.total(), IDLE, scale)]
    present = [p for p in IDLE if total[p.column]]
    body = (
        legend((p.token, term(p.word, p.definition), share(total[p.column], whole)) for p in present)
        + '<div class="chart" data-chart="idle" role="img" aria-label="Idle time per device by cause"></div>'
        + data_table(
            ["device", *(f"#{p.word}" for p in present)],
            ([text(label), *(f.duration(causes[p.column]) for p in present)] for label, causes in shown),
        )
    )
    most = max(present, key=lambda p: total[p.column])
    say = f"{percent(total[most.column] / whole, 'idle-causes')} of {time(whole, 'idle-causes')} idle is {most.word}."
    foot = "Gaps at a window's end have no launch that ends them: they count as unknown."
    chart = Chart([stacked_rows(rows, tokens(IDLE), unit)])
    return Panel("idle", _TITLE, say, body, "", _DEFINITION, foot, {"idle": chart})


def _none(data: JobData) -> Panel:
    if data.summary.idle_ns is None:
        code = gpu_reason(data)
        body = state("Withheld", f"{reason(code).capitalize()}.", code, hatched=True)
        return Panel("idle", _TITLE, "Idle time is unknown.", body, "", _DEFINITION)
    words = "No gaps were found in the devices' activity, or an older version made this job's tables."
    return Panel("idle", _TITLE, "No idle time by cause.", state("Nothing recorded", words), "", _DEFINITION)
