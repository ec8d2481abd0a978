"""The top of a page: what the job is, how far its numbers can be trusted, and its key figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from tracelake.reports import format as f
from tracelake.reports.data import JobData
from tracelake.reports.files import checks_file, href
from tracelake.reports.html import pill, term, text
from tracelake.reports.metric_rows import Device
from tracelake.reports.panels.shared import share
from tracelake.reports.record_rows import Job, Publication
from tracelake.reports.words import FORMATS, QUALITY, STATES, reason, short_device

_REASONS = 4
"""Reasons against a publication that a banner names."""


def gpu_reason(data: JobData) -> str:
    """The code that says why the job has no device numbers."""
    for code in (*(d.reason for d in data.devices), *(g.gpu_reason for g in data.source_groups)):
        if code:
            return code
    return "no_gpu_activity_captured"


def title(data: JobData) -> str:
    job, s = data.job, data.summary
    pills = [pill(*STATES.get(job.state, ("off", job.state))), pill(*QUALITY.get(s.status, ("warn", s.status)))]
    if s.step_count == 1:
        pills.append(pill("warn", "1 step only"))
    if job.attempt_count > 1:
        pills.append(pill("off", f"attempt {s.attempt} of {job.attempt_count}"))
    return f'<div class="title"><h1>{text(job.job_id)}</h1>{"".join(pills)}</div>{_meta(data)}'


def _meta(data: JobData) -> str:
    job, s = data.job, data.summary
    facts = []
    if s.ranks_seen_count:
        on = f" on {f.plural(s.node_count, 'node')}" if s.node_count else ""
        facts.append(f"<b>{f.plural(s.ranks_seen_count, 'rank')}</b>{on}")
    models = ((m.device_count, m.name) for m in data.device_models[:3] if m.name)
    facts += [f"<b>{f.count(n)} × {text(short_device(name))}</b>" for n, name in models]
    if s.started_ns is not None and s.ended_ns is not None:
        facts.append(f"window <b>{f.duration(s.ended_ns - s.started_ns)}</b>")
        facts.append(f.utc(s.started_ns))
    if job.framework:
        facts.append(text(job.framework))
    facts.append(f"from {text(FORMATS.get(job.format, job.format))}")
    return f'<p class="meta">{"".join(f"<span>{x}</span>" for x in facts)}</p>'


def banner(data: JobData) -> str:
    """Said on top of the page where the capture is not whole."""
    s = data.summary
    if s.status == "complete":
        return ""
    opening = {
        "running": ("info", "Still recording.", "Numbers cover what was recorded so far and will change."),
        "incomplete": ("warn", "Incomplete capture.", "Numbers cover the recorded part only."),
        "interrupted": ("warn", "Recording interrupted.", "Numbers cover what was recorded until then."),
        "degraded": ("bad", "Degraded capture.", "Losses make some numbers doubtful; those are withheld below."),
    }
    kind, first, then = opening.get(s.status, ("warn", f"Capture {text(s.status)}.", "Read the numbers with care."))
    why = " ".join(f"{reason(code).capitalize()} (<code>{text(code)}</code>)." for code in s.reasons[:6])
    return (
        f'<div class="banner {kind}" role="note"><b>{first}</b> {then} {why} '
        '<a href="#quality">Capture quality</a></div>'
    )


def publication(job: Job, verdict: Publication) -> str:
    """Said on top of a page where the job may not be published."""
    if verdict.is_publishable:
        return ""
    shown = "; ".join(map(text, verdict.reasons[:_REASONS]))
    more = f"; and {f.count(len(verdict.reasons) - _REASONS)} more" if len(verdict.reasons) > _REASONS else ""
    link = href(checks_file(job.job_id), "not-passed")
    return f'<div class="banner bad" role="note"><b>Not published:</b> {shown}{more}. <a href="{link}">Checks</a></div>'


@dataclass(frozen=True, slots=True)
class _Figure:
    words: str
    definition: str
    value: str
    note: str
    range: tuple[float, float, float] | None = None

    def html(self) -> str:
        number, _, unit = self.value.rpartition(f.NBSP)
        simple = bool(number) and f.NBSP not in number
        shown = f'{text(number)}<span class="u">{text(unit)}</span>' if simple else text(self.value)
        word = "" if any(c.isdigit() for c in self.value) else " word"
        return (
            f'<div><dt>{term(self.words, self.definition)}</dt><dd class="v{word}">{shown}</dd>{self._bar()}'
            f'<dd class="d">{self.note}</dd></div>'
        )

    def _bar(self) -> str:
        if self.range is None:
            return '<div class="rng none"></div>'
        low, high, middle = (100 * r for r in self.range)
        return (
            f'<div class="rng" aria-hidden="true"><i style="left:{low:.1f}%;width:{max(0.6, high - low):.1f}%"></i>'
            f'<b style="left:{min(middle, 99.5):.1f}%"></b></div>'
        )


def key_figures(data: JobData) -> str:
    figures = (
        _device_share(data, "GPU active", "gpu-active", data.summary.gpu_active_ratio, lambda d: d.gpu_active_ratio),
        _part(data, "Compute", "compute", "compute_ns"),
        _part(data, "Exposed communication", "exposed-comm", "exposed_comm_ns"),
        _overlap(data),
        _step(data),
        _coverage(data),
        *_mfu(data),
        *_bubbles(data),
    )
    return f'<dl class="kf" id="figures" aria-label="Key figures">{"".join(x.html() for x in figures)}</dl>'


def _device_share(
    data: JobData, words: str, definition: str, ratio: float | None, of: Callable[[Device], float | None]
) -> _Figure:
    if ratio is None:
        return _Figure(words, definition, "withheld", f"<code>{text(gpu_reason(data))}</code>")
    over = [r for r in map(of, data.devices) if r is not None]
    return _Figure(words, definition, f.percent(ratio), _spread(over), _range(over))


def _part(data: JobData, words: str, definition: str, column: str) -> _Figure:
    s = data.summary
    amount: int | None = getattr(s, column)
    ratio = amount / s.device_time_ns if amount is not None and s.device_time_ns else None

    def of(d: Device) -> float | None:
        part: int | None = getattr(d, column)
        return part / d.window_ns if part is not None and d.window_ns else None

    return _device_share(data, words, definition, ratio, of)


def _spread(over: Sequence[float]) -> str:
    if not over:
        return ""
    if len(over) == 1:
        return "one device"
    return f"{f.percent(min(over))} to {f.percent(max(over))}, {len(over)} devices"


def _range(over: Sequence[float]) -> tuple[float, float, float] | None:
    return (min(over), max(over), median(over)) if over else None


def _overlap(data: JobData) -> _Figure:
    words, definition = "Communication overlap", "comm-overlap"
    s = data.summary
    if s.comm_overlap_ratio is None and s.device_time_ns:
        return _Figure(words, definition, "not applicable", "no communication kernel ran")
    return _device_share(data, words, definition, s.comm_overlap_ratio, lambda d: d.comm_overlap_ratio)


def _step(data: JobData) -> _Figure:
    s = data.summary
    if s.step_median_ns is None:
        return _Figure("Step time", "step-time", "no steps", f"<code>{text(s.no_steps_reason or 'no_steps')}</code>")
    if s.step_count == 1:
        slowest = data.steps[0].rank if data.steps else None
        who = f", slowest rank {slowest}" if slowest is not None else ""
        return _Figure("Step time, slowest rank", "step-time", f.duration(s.step_median_ns), f"1 step{who}")
    longest = f", longest {f.duration(s.step_max_ns)}" if s.step_max_ns is not None else ""
    note = f"{f.plural(s.step_count, 'step')}{' (inferred)' if s.is_step_inferred else ''}{longest}"
    return _Figure("Step time, median", "step-median", f.duration(s.step_median_ns), note)


def _coverage(data: JobData) -> _Figure:
    ratio = data.summary.launch_coverage_ratio
    if ratio is None:
        return _Figure("Launch coverage", "launch-coverage", "not applicable", "no launches that start kernels")
    over = [d.launch_coverage_ratio for d in data.devices if d.launch_coverage_ratio is not None]
    note = f"lowest {f.percent(min(over))}; limit 95{f.NBSP}%" if over else f"limit 95{f.NBSP}%"
    return _Figure("Launch coverage", "launch-coverage", f.percent(ratio), note, (0, ratio, 0.95))


def _mfu(data: JobData) -> tuple[_Figure, ...]:
    """Few jobs tell their FLOPs: where they are unknown there is no figure."""
    s = data.summary
    if s.mfu_ratio is None or s.achieved_flops_per_s is None or s.peak_flops_per_s is None:
        return ()
    note = f"{f.flops(s.achieved_flops_per_s)} of {f.flops(s.peak_flops_per_s)} per device"
    return (_Figure("MFU", "mfu", f.percent(s.mfu_ratio), note, (0, s.mfu_ratio, s.mfu_ratio)),)


def _bubbles(data: JobData) -> tuple[_Figure, ...]:
    """Of jobs whose ranks send to each other: of the others there is no figure."""
    ratio = data.summary.bubble_ratio
    if ratio is None:
        return ()
    note = "of step time, median rank"
    return (_Figure("Pipeline bubbles", "pipeline-bubble", f.percent(ratio), note, (0, ratio, ratio)),)


def active_time(data: JobData) -> str:
    """How long the devices were active, in words."""
    s = data.summary
    active = sum(x or 0 for x in (s.compute_ns, s.exposed_comm_ns, s.exposed_mem_ns))
    return f"{f.duration(active)} of {f.duration(s.device_time_ns or 0)} ({share(active, s.device_time_ns or 0)})"
