"""What the job is: who ran what, where, with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracelake.reports import format as f
from tracelake.reports.data import JobData
from tracelake.reports.html import pairs, text
from tracelake.reports.names import bounded
from tracelake.reports.page import Panel
from tracelake.reports.words import FORMATS, STATES

_LISTED = 8
_MISSING = '<span class="muted">not recorded</span>'


def panel(data: JobData) -> Panel:
    job, s = data.job, data.summary
    world = f"{f.count(job.world_size)} ranks expected" if job.world_size is not None else None
    items = [
        ("Job", f'<span class="mono">{text(bounded(job.job_id, 256))}</span>'),
        ("State", _state(data)),
        ("Project", _value(job.project)),
        ("Owner", _value(job.user)),
        ("Family", _value(job.family)),
        ("Started", f.utc(s.started_ns, digits=3) if s.started_ns is not None else _MISSING),
        (
            "Ended",
            f.utc(job.ended_ns, digits=3) if job.ended_ns is not None else '<span class="muted">not known</span>',
        ),
        ("Framework", _value(job.framework)),
        ("World size", _value(world)),
        ("Nodes", _list(job.nodes)),
        ("Devices", _devices(data)),
        ("Instance type", _value(job.instance_type)),
        ("Instances", _list(job.instance_ids)),
        ("Cloud account", _value(job.cloud_account)),
        ("Region", _value(job.cloud_region)),
        ("Cloud job", _value(job.cloud_job_id)),
        ("Hyperparameters", _settings(job.hyperparameters)),
        ("Tags", _settings(job.tags)),
    ]
    owner = f" of project {text(job.project)}" if job.project else ""
    say = f"Attempt {f.count(s.attempt)}{owner}; events from {text(FORMATS.get(job.format, job.format))}."
    return Panel("job", "Job", say, pairs(items), "c5")


def _state(data: JobData) -> str:
    words = STATES.get(data.job.state, ("", data.job.state))[1]
    return text(words) + (f", exit code {data.job.exit_code}" if data.job.exit_code is not None else "")


def _value(value: str | None) -> str:
    return text(bounded(value, 256)) if value else _MISSING


def _list(values: Sequence[str]) -> str:
    if not values:
        return _MISSING
    more = f" and {f.count(len(values) - _LISTED)} more" if len(values) > _LISTED else ""
    shown = ", ".join(f'<span class="mono">{text(bounded(v, 128))}</span>' for v in values[:_LISTED])
    return f"{f.count(len(values))}: {shown}{more}" if len(values) > 1 else shown


def _devices(data: JobData) -> str:
    lines = []
    for m in data.device_models[:6]:
        parts = [text(m.name or "not named")]
        if m.memory_bytes is not None:
            parts.append(f.size(m.memory_bytes))
        if m.sm_count is not None:
            parts.append(f"{m.sm_count} SMs")
        if m.compute_capability:
            parts.append(f"compute capability {text(m.compute_capability)}")
        lines.append(f"{f.count(m.device_count)} × {', '.join(parts)}")
    return "<br>".join(lines) or _MISSING


def _settings(settings: Mapping[str, str], limit: int = 60) -> str:
    if not settings:
        return _MISSING
    items = sorted(settings.items())
    shown = "<br>".join(
        f'<span class="mono">{text(bounded(k, 80))} = {text(bounded(str(v), 200))}</span>' for k, v in items[:limit]
    )
    return shown + (f"<br>and {f.count(len(items) - limit)} more" if len(items) > limit else "")
