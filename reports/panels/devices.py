"""Where device time went, per device and over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracelake.reports import format as f
from tracelake.reports.charts import Chart, Values, one_bar, stacked_rows
from tracelake.reports.data import JobData
from tracelake.reports.html import bar, data_table, legend, pairs, state, swatch, table, term, text
from tracelake.reports.metric_rows import Device, OtherDevices
from tracelake.reports.page import Panel
from tracelake.reports.panels.header import gpu_reason
from tracelake.reports.panels.shared import device_labels, percent, share, time, tokens, values
from tracelake.reports.record_rows import Summary
from tracelake.reports.words import LEDGER, reason

_DEFINITION = '<a class="btn" href="#def-device-ledger">Definition</a>'
_TITLES = {"devices": "Where device time went", "activity": "GPU activity"}
_TALL = 24
"""Devices beyond which nothing stands beside the chart."""

_Row = tuple[str, int, dict[str, int]]
"""Label, window and parts of a device."""


def panels(data: JobData) -> tuple[Panel, Panel]:
    amounts = _amounts(data.summary)
    if amounts is None or not data.summary.device_time_ns:
        return _withheld(data, "devices", "c7"), _withheld(data, "activity", "c5")
    return _per_device(data, amounts), _all_devices(data, amounts)


def _amounts(row: Device | OtherDevices | Summary) -> dict[str, int] | None:
    """The ledger's parts, idle split by synchronization; None where they are withheld."""
    if row.compute_ns is None or row.idle_ns is None:
        return None
    sync = row.sync_idle_ns or 0
    return {
        "compute_ns": row.compute_ns,
        "exposed_comm_ns": row.exposed_comm_ns or 0,
        "exposed_mem_ns": row.exposed_mem_ns or 0,
        "sync_idle_ns": sync,
        "other_idle_ns": row.idle_ns - sync,
    }


def _withheld(data: JobData, anchor: str, width: str) -> Panel:
    code = gpu_reason(data)
    why = f"{reason(code).capitalize()}."
    if anchor == "activity":
        body = state("Withheld", why, code, hatched=True) + _measures(data)
        return Panel(anchor, _TITLES[anchor], "GPU activity is unknown.", body, width)
    n, coverage = len(data.devices), data.summary.launch_coverage_ratio
    have = f"{f.plural(n, 'device')} with a window. " if n else "No device in the recording. "
    if code == "low_launch_coverage" and coverage is not None:
        have += f"Launch coverage is {f.percent(coverage)}; 95{f.NBSP}% is needed. "
    said = next((source.capture_reason for source in data.troubled_sources if source.capture_reason), None)
    words = f"{have}{why} " + (f"Recorder: {said}." if said else "Record again with the device tracer on to get it.")
    body = state("Withheld", words, code, hatched=True)
    return Panel(anchor, _TITLES[anchor], "Device time is unknown.", body, width, _DEFINITION)


def _per_device(data: JobData, total: Mapping[str, int]) -> Panel:
    shown, withheld = _split(data)
    scale, unit = f.axis_unit(max((window for _, window, _ in shown), default=1))
    rows: Values = [v for label, window, a in shown for v in values(("y", label), a, window, LEDGER, scale)]
    whole = data.summary.device_time_ns or 0
    body = (
        legend((p.token, term(p.word, p.definition), share(total[p.column], whole)) for p in LEDGER)
        + '<div class="chart" data-chart="devices" role="img" aria-label="Device time per device"></div>'
        + "".join(_withheld_row(label, device) for label, device in withheld[:8])
        + data_table(
            ["device", "#window", *(f"#{p.word}" for p in LEDGER)],
            ([text(y), f.duration(w), *(f.duration(a[p.column]) for p in LEDGER)] for y, w, a in shown),
        )
    )
    foot = "Each bar is the device's recorded window; its parts sum to it exactly."
    if data.other_devices:
        foot += f" The {len(data.devices)} least active devices are shown one by one."
    if len(withheld) > 8:
        foot += f" {f.plural(len(withheld) - 8, 'more device')} withheld."
    width = "" if len(shown) > _TALL else "c7"
    chart = Chart([stacked_rows(rows, tokens(LEDGER), unit)])
    say = _say(data, shown)
    return Panel("devices", _TITLES["devices"], say, body, width, _DEFINITION, foot, {"devices": chart})


def _split(data: JobData) -> tuple[list[_Row], list[tuple[str, Device]]]:
    """Devices with numbers, those beyond the list as one row, and devices whose numbers are withheld."""
    shown: list[_Row] = []
    withheld = []
    for label, device in zip(device_labels(data.devices), data.devices, strict=True):
        amounts = _amounts(device)
        if amounts is None:
            withheld.append((label, device))
        else:
            shown.append((label, device.window_ns, amounts))
    others = data.other_devices
    if others and (rest := _amounts(others)):
        n = others.device_count
        mean = {part: ns // n for part, ns in rest.items()}
        shown.append((f"{f.count(n)} others, mean", (others.window_ns or 0) // n, mean))
    return shown, withheld


def _withheld_row(label: str, device: Device) -> str:
    words = f"{reason(device.reason).capitalize()}. Its {f.duration(device.window_ns)} are in no sum."
    return state(f"{text(label)}: withheld", words, device.reason, hatched=True)


def _say(data: JobData, shown: Sequence[_Row]) -> str:
    s = data.summary
    first = f"Compute is {percent((s.compute_ns or 0) / (s.device_time_ns or 1), 'compute')} of recorded device time."
    active = [(1 - (a["sync_idle_ns"] + a["other_idle_ns"]) / w, y) for y, w, a in shown if w]
    if len(active) < 2:
        return first
    (low, low_row), (high, high_row) = min(active), max(active)
    return (
        f"{first} The least active device is {text(low_row)} with {percent(low, 'gpu-active')}, the most active "
        f"{text(high_row)} with {percent(high, 'gpu-active')}."
    )


def _all_devices(data: JobData, total: Mapping[str, int]) -> Panel:
    s = data.summary
    whole = s.device_time_ns or 0
    active = sum(total[c] for c in ("compute_ns", "exposed_comm_ns", "exposed_mem_ns"))
    largest = max(total.values()) or 1
    rows = [
        [
            f'<span class="tag">{swatch(p.token)} {term(p.word, p.definition)}</span>',
            bar(total[p.column] / largest, p.token),
            f.duration(total[p.column]),
            share(total[p.column], whole),
        ]
        for p in LEDGER
    ]
    body = (
        '<div class="chart" data-chart="activity" role="img" aria-label="Device time of all devices by class"></div>'
        + table(["Class", "Time", "#" + term("Time", "device-ledger"), "#Share"], rows, "bars")
        + _measures(data)
    )
    who = f.plural(s.device_count, "device")
    say = f"{who} active for {time(active, 'gpu-active')} of {time(whole, 'window')} recorded, summed over devices."
    chart = Chart([one_bar(values(None, total, whole, LEDGER), tokens(LEDGER))])
    foot = f"{f.duration(s.withheld_ns)} of withheld windows are left out." if s.withheld_ns else ""
    width = "" if len(data.devices) > _TALL else "c5"
    return Panel("activity", _TITLES["activity"], say, body, width, "", foot, {"activity": chart})


def _measures(data: JobData) -> str:
    s = data.summary
    sampled = _ratio(s.gpu_util_sampled_ratio, "not_sampled")
    if s.gpu_util_sampled_coverage_ratio is not None:
        sampled += f' <span class="muted">({f.percent(s.gpu_util_sampled_coverage_ratio)} of samples valid)</span>'
    measures = [
        (term("Kernel busy", "kernel-busy"), _ratio(s.kernel_busy_ratio, gpu_reason(data))),
        (term("GPU utilization, sampled", "gpu-util-sampled"), sampled),
        (term("CPU utilization", "cpu-util"), _ratio(s.cpu_util_ratio, "not_sampled")),
        (term("CPU active", "cpu-active"), _ratio(s.cpu_active_ratio, "not_sampled")),
    ]
    return f'<h3 class="sub">Other measures</h3>{pairs(measures)}'


def _ratio(ratio: float | None, code: str) -> str:
    if ratio is None:
        return f'<span class="muted">not recorded</span> <code>{text(code)}</code>'
    return f.percent(ratio)
