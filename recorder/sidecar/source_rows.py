"""The window's own rows: who recorded it, where, how it ended, and every event accounted for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tracelake.recorder.capture import NO_GPU
from tracelake.schemas.catalog import table
from tracelake.schemas.render.arrow import arrow_schema

if TYPE_CHECKING:
    from tracelake.recorder.sidecar.window import Window

_FROM_IDENTITY = (
    "job_id", "attempt", "node_id", "rank", "world_size", "process_id", "process_name", "project", "user", "family",
    "instance_type", "cloud_account", "cloud_region", "instance_id", "cloud_job_id",
)  # fmt: skip
REMEDIES = {
    "dropped": "the recorder had to drop them; raise its memory or spool budget, or record shorter windows",
    "spool_lost": "they were counted but are not in the spool; look for a full or failing disk",
    "another_profiler": "another profiler had the GPU's trace; record when it is off",
}


@dataclass(frozen=True)
class Closing:
    """How a window ended. Times on the monotonic clock; counts by kind."""

    end_ns: int
    status: str
    status_reason: str | None = None
    state: str | None = "in_progress"
    exit_code: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)

    def ended(self, state: str | None, exit_code: int | None) -> Closing:
        """The same, once it is known how the process ended."""
        return replace(self, state=state, exit_code=exit_code)


def described(process: Mapping[str, Any]) -> dict[str, Any]:
    """What process.json says, as columns of raw.source; facts found later are put over it."""
    identity, settings = process["identity"], process["settings"]
    about = {name: identity.get(name) for name in _FROM_IDENTITY}
    return {
        **about,
        "attempt": about["attempt"] or 0,
        "framework": None,
        "devices": [],
        "tags": {**identity.get("tags", {}), **settings.get("tags", {})},
        "hyperparameters": dict(settings.get("hyperparameters", {})),
        "recorder_version": process["recorder_version"],
    }


def source_table(about: Mapping[str, Any], window: Window, closing: Closing | None) -> pa.Table:
    """One row while the window is open, two once it is closed. The open row carries the counts so far."""
    opened = _row(about, window)
    rows = [opened]
    if closing is not None:
        end = {
            "phase": "close",
            "state": closing.state,
            "exit_code": closing.exit_code,
            "status": closing.status,
            "status_reason": closing.status_reason,
            "window_end_ns": closing.end_ns + window.clock_offset_ns,
            "dropped": _texts(closing.dropped),
            "produced": _texts(_sum(window.stored, closing.dropped)),
        }
        rows.append({**opened, **end})
    return pa.Table.from_pylist(rows, arrow_schema(table("raw.source")))


def _row(about: Mapping[str, Any], window: Window) -> dict[str, Any]:
    opened = window.opened
    counts = {f"rows_{name}_count": count for name, count in window.row_counts().items()}
    start_ns = opened["start_ns"]
    return {
        **about,
        **counts,
        "day": window.day,
        "source_id": window.source_id,
        "phase": "open",
        "format": "tracelake",
        "state": "in_progress",
        "devices": json.dumps(about["devices"]),
        "hyperparameters": _texts(about["hyperparameters"]),
        "tags": _texts(about["tags"]),
        "window_start_ns": None if start_ns is None else start_ns + window.clock_offset_ns,
        "status": "running",
        "previous_source_id": opened["previous_source_id"],
        "flags": sorted({gap["reason"] for gap in window.gaps} | set(opened.get("flags", ()))),
        "skipped": _texts(window.skipped),
        "produced": _texts(window.stored),
        "dropped": [],
        "capture": opened["capture"],
        "capture_reason": _capture_reason(opened),
    }


def _capture_reason(opened: Mapping[str, Any]) -> str | None:
    return f"{opened['capture_code']}: {opened['capture_text']}" if opened["capture_code"] else None


def capture_failed(opened: Mapping[str, Any]) -> bool:
    return opened["capture_code"] is not None and opened["capture_code"] not in NO_GPU


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {kind: one.get(kind, 0) + other.get(kind, 0) for kind in {*one, *other}}


def _texts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return sorted((key, str(value)) for key, value in values.items())


def loss_table(losses: Sequence[Mapping[str, Any]]) -> pa.Table:
    """raw.loss from {file, reason, rows_count, excerpt, row_index}."""
    empty = {"job_id": "", "source_id": "", "offset_bytes": None, "length_bytes": None}
    rows = [{**empty, "remedy": REMEDIES[loss["reason"]], **loss} for loss in losses]
    return pa.Table.from_pylist(rows, arrow_schema(table("raw.loss"))).drop_columns(["job_id", "source_id"])
