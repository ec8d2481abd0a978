"""A stretch of a job as rows of the tables give it, and as the tree of tracks that a timeline shows."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("compute", "communication", "memory", "launch", "sync", "step", "annotation")
"""What an event is; a kind has one colour and one word."""


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of time shown: a step with a little around it, or what the reader asked for."""

    job_id: str
    attempt: int
    project: str | None
    title: str
    start_ns: int
    end_ns: int
    focus_rank: int | None = None
    """The rank that the page opens: the guilty or the slowest one."""
    why: str = ""
    """Why this stretch."""


@dataclass(frozen=True, slots=True)
class Source:
    """A recorded window of one process that overlaps the stretch."""

    source_id: str
    node_id: str | None
    rank: int | None
    process_id: int | None
    process_name: str | None
    status: str
    gpu_reason: str | None
    ahead_ns: int | None = 0
    """How far its clock is ahead of the reference, which its rows are freed of; NULL where nobody knows."""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    source_id: str
    device_id: str
    device_index: int | None
    name: str | None


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event. A device event has device and stream, a host event its thread."""

    source_id: str
    device_id: str | None
    stream_id: int | None
    thread_id: int | None
    kind: str
    name: str
    short_name: str | None
    detail: str | None
    start_ns: int
    end_ns: int
    launch_id: int | None = None
    """Of a launch its own number, of a device event that of its launch."""
    depth: int | None = None
    collective: str | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MergedRow:
    """Short events of one track that the page shows as one block; busy_ns is the sum of their durations."""

    source_id: str
    device_id: str | None
    stream_id: int | None
    thread_id: int | None
    kind: str
    start_ns: int
    end_ns: int
    event_count: int
    busy_ns: int


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A reading of a node's metric, averaged over what was read; it tells of the time since the one before."""

    node_id: str | None
    metric: str
    unit: str
    at_ns: int
    value: float | None


@dataclass(frozen=True, slots=True)
class Mark:
    """A step, with what is unusual about it."""

    label: str
    start_ns: int
    end_ns: int
    kind: str | None = None
    say: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """All that a timeline shows, as plain rows; every list is bounded."""

    window: Window
    sources: tuple[Source, ...]
    source_count: int
    devices: tuple[DeviceRow, ...]
    events: tuple[EventRow, ...]
    merged: tuple[MergedRow, ...]
    samples: tuple[SampleRow, ...]
    marks: tuple[Mark, ...]

    @property
    def event_count(self) -> int:
        return len(self.events) + sum(m.event_count for m in self.merged)


@dataclass(frozen=True, slots=True)
class Track:
    """A row of the tree. Events lie in lanes, so that those of one lane do not overlap."""

    id: str
    parent: str
    kind: str
    title: str
    note: str = ""
    lanes: tuple[tuple[EventRow, ...], ...] = ()
    merged: tuple[MergedRow, ...] = ()
    samples: tuple[tuple[int, float | None], ...] = ()
    unit: str = ""
    reason: str = ""
    """Why there is nothing to show."""
    is_open: bool = True
