"""What samples say of the devices: power, clocks, throttling and memory."""

from __future__ import annotations

from tracelake.reports import format as f
from tracelake.reports.cause_rows import DeviceSamples
from tracelake.reports.data import JobData
from tracelake.reports.html import pill, state, table, term, text, unknown
from tracelake.reports.names import label
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import count
from tracelake.reports.read_causes import MAX_RANKS
from tracelake.reports.words import reason

_TITLE = "Power, clocks and memory"
_DEFINITION = '<a class="btn" href="#def-device-samples">Definition</a>'
_HEAD = (
    "Device",
    "#" + term("Power, mean", "device-samples"),
    "#.Power, most",
    "#" + term("Clock", "device-samples"),
    "#" + term("Throttled", "device-samples"),
    "#.Power capped",
    "#" + term("Memory, most", "device-samples"),
    "#.Growth",
    "Memory over time",
)


def panel(data: JobData) -> Panel:
    rows = data.causes.device_samples
    if not rows:
        words = "Power, clocks and memory come from the recorder; imported traces have none."
        return Panel("samples", _TITLE, "No device was sampled.", state("Nothing recorded", words, "not_sampled"))
    return Panel("samples", _TITLE, _say(rows), table(_HEAD, map(_row, rows)), "", _DEFINITION, _foot(rows))


def _say(rows: tuple[DeviceSamples, ...]) -> str:
    leaks = sum(bool(r.is_memory_leak) for r in rows)
    watts = [r.power_mean_watts for r in rows if r.power_mean_watts is not None]
    said = [f"{count(len(rows), 'device-samples')} sampled {'device' if len(rows) == 1 else 'devices'}"]
    if watts:
        said.append(f"{f.three_digits(sum(watts) / len(watts))}{f.NBSP}W each in the mean")
    said.append(_slowed(rows))
    if leaks:
        said.append(f"memory grows steadily on {count(leaks, 'device-samples')}")
    return f"{'; '.join(said)}."


def _slowed(rows: tuple[DeviceSamples, ...]) -> str:
    ratios = [r.throttled_ratio for r in rows if r.throttled_ratio is not None]
    if not ratios:
        return "throttling not recorded"
    slowed = sum(ratio > 0 for ratio in ratios)
    words = "with the clock lowered by heat or a power brake"
    return f"{count(slowed, 'device-samples')} {words}" if slowed else "none throttled"


def _foot(rows: tuple[DeviceSamples, ...]) -> str:
    least = min(r.coverage_ratio for r in rows)
    more = f" The {MAX_RANKS} with most to say." if len(rows) == MAX_RANKS else ""
    return f"At least {f.percent(least)} of each device's readings are valid.{more}"


def _row(r: DeviceSamples) -> list[str]:
    who = f"rank {r.rank}" if r.rank is not None else text(label(r.device_id, 24))
    where = f" on {text(label(r.node_id, 20))}" if r.node_id else ""
    return [
        who + where,
        _watts(r.power_mean_watts),
        _watts(r.power_max_watts),
        f"{f.three_digits(r.clock_median_hz / 1e9)}{f.NBSP}GHz"
        if r.clock_median_hz is not None
        else unknown(None, "–"),
        _share(r.throttled_ratio),
        _share(r.power_capped_ratio),
        _memory(r),
        _growth(r.memory_growth_bytes),
        _trend(r),
    ]


def _watts(watts: float | None) -> str:
    return f"{f.three_digits(watts)}{f.NBSP}W" if watts is not None else unknown(None, "–")


def _share(ratio: float | None) -> str:
    return f.percent(ratio) if ratio is not None else unknown(None, "–")


def _growth(size: int | None) -> str:
    if size is None:
        return unknown(None, "–")
    return f"−{f.size(-size)}" if size < 0 else f.size(size)


def _memory(r: DeviceSamples) -> str:
    if r.memory_max_bytes is None:
        return unknown(None, "–")
    of = f" of {f.size(r.memory_total_bytes)}" if r.memory_total_bytes else ""
    return f.size(r.memory_max_bytes) + of


def _trend(r: DeviceSamples) -> str:
    if r.is_memory_leak is None:
        code = r.memory_reason
        why = text(reason(code).capitalize())
        return f'<span class="muted" title="{why}">not judged</span> <code>{text(code or "")}</code>'
    return pill("bad", "leak") if r.is_memory_leak else pill("good", "steady")
