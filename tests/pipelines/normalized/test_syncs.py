"""Waits: which hold the host, and which only order streams."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def wait(event_id: int, kind: str, **more: Any) -> Row:
    return {"event_id": event_id, "kind": kind, "start_ns": 10, "duration_ns": 5, **more}


BLOCKING = ("device_synchronize", "context_synchronize", "stream_synchronize", "event_synchronize")
MARKERS = ("stream_wait_event", "stream_capture_begin", "stream_capture_end")

STORIES: dict[str, Story] = {
    "host calls that wait are blocking": story(
        sync=[wait(i, kind, thread_id=1) for i, kind in enumerate(BLOCKING)],
        expect=[{"kind": kind, "is_blocking": True, "device_id": None, "end_ns": 15} for kind in BLOCKING],
    ),
    "markers between streams are not": story(
        sync=[wait(i, kind) for i, kind in enumerate(MARKERS)],
        expect=[{"kind": kind, "is_blocking": False} for kind in MARKERS],
    ),
    "a marker has its device, a host call its thread": story(
        source=[{"node_id": "n"}],
        sync=[wait(1, "stream_wait_event", device_index=1, stream_id=7), wait(2, "device_synchronize", thread_id=5)],
        expect=[{"device_id": "n/gpu1", "stream_id": 7, "thread_id": None},
                {"device_id": None, "stream_id": None, "thread_id": 5}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.syncs", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_syncs(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
