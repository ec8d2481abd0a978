"""Copies and fills: their launch, delay and device."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def moved(event_id: int, start: int, end: int, correlation_id: int | None, **more: Any) -> Row:
    row = {"event_id": event_id, "start_ns": start, "duration_ns": end - start, "correlation_id": correlation_id}
    return {"kind": "memcpy", "device_index": 0, **row, **more}


def call(launch_id: int, start: int, first: int | None, **more: Any) -> Row:
    row = {"launch_id": launch_id, "correlation_id": launch_id, "start_ns": start, "end_ns": start + 5}
    return {**row, "first_event_start_ns": first, **more}


def made(event_id: int, launch_id: int | None, delay: int | None, *flags: str, **more: Any) -> Row:
    return {"event_id": event_id, "launch_id": launch_id, "launch_delay_ns": delay, "flags": list(flags), **more}


STORIES: dict[str, Story] = {
    "a copy keeps what the tool said and knows its launch": story(
        source=[{"node_id": "n", "rank": 2}],
        memop=[moved(1, 30, 40, 1, direction="htod", memory_kind="pinned", bytes=64, stream_id=7)],
        launches=[call(1, 10, 30, step_name="step", step_occurrence=4, annotation_id=9)],
        expect=[made(1, 1, 20, end_ns=40, duration_ns=10, direction="htod", memory_kind="pinned", bytes=64, stream_id=7,
                     device_id="n/gpu0", rank=2, step_name="step", step_occurrence=4, annotation_id=9)],
    ),
    "a size that is not said is unknown": story(
        memop=[moved(1, 30, 40, 1, kind="memset")], launches=[call(1, 10, 30)],
        expect=[made(1, 1, 20, bytes=None, direction=None, kind="memset")],
    ),
    "only the launch's first event carries the delay": story(
        memop=[moved(1, 50, 60, 1), moved(2, 30, 40, 1), moved(3, 90, 95, 2)],
        launches=[call(1, 10, 30), call(2, 80, 85)],
        expect=[made(1, 1, None), made(2, 1, 20), made(3, 2, None)],
    ),
    "a copy before its launch is flagged and has no delay": story(
        memop=[moved(1, 7, 40, 1)], launches=[call(1, 10, 7)], expect=[made(1, 1, None, "before_launch")]
    ),
    "copies without a launch are orphans and stay": story(
        memop=[moved(1, 30, 40, 5), moved(2, 30, 40, 0), moved(3, 30, 40, None)],
        launches=[call(0, 10, None)],
        expect=[made(i, None, None, "orphan") for i in (1, 2, 3)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.memops", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_memops(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
