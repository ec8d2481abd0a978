"""Queues of streams, counted by hand: launches that started and whose first event has not."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

from tracelake.pipelines.functions.intervals import SLICE_NS
from tracelake.pipelines.parameters import Parameters

SOURCES = [{"window_start_ns": 0, "window_end_ns": 100}]


def ran(called: int | None, start: int, **more: Any) -> Row:
    delay = None if called is None else start - called
    row = {"event_id": start, "device_id": "d", "stream_id": 7, "start_ns": start, "end_ns": start + 5}
    return {**row, "launch_delay_ns": delay, **more}


STORIES: dict[str, Story] = {
    "a launch is in the queue until its first event starts": story(
        sources=SOURCES, kernels=[ran(0, 10), ran(5, 20), ran(8, 30)],
        # Lengths: 1 in [0, 5), 2 in [5, 8), 3 in [8, 10), 2 in [10, 20), 1 in [20, 30).
        expect=[{"launch_count": 3, "window_ns": 100, "queued_ns": 30, "queue_max_count": 3, "queue_p50_count": 0,
                 "empty_ratio": 0.7, "full_ratio": 0.02}],
    ),
    "the median is over all of the time": story(
        sources=SOURCES, memops=[ran(0, 60), ran(0, 51), ran(0, 40)],
        expect=[{"queue_p50_count": 2, "queue_max_count": 3, "empty_ratio": 0.4, "queued_ns": 60, "full_ratio": 0.4}],
    ),
    "later kernels of a launch and events before theirs are in no queue": story(
        sources=SOURCES, kernels=[ran(0, 10), ran(None, 20), ran(None, 30)],
        expect=[{"launch_count": 1, "queued_ns": 10, "queue_max_count": 1}],
    ),
    "streams and devices each have their queue": story(
        sources=SOURCES, kernels=[ran(0, 10), ran(0, 20, stream_id=8), ran(0, 30, device_id="e")],
        expect=[{"device_id": "d", "stream_id": 7, "queued_ns": 10},
                {"device_id": "d", "stream_id": 8, "queued_ns": 20},
                {"device_id": "e", "stream_id": 7, "queued_ns": 30}],
    ),
    "windows of an attempt add up, withheld ones are left out": story(
        sources=[*SOURCES, {"source_id": "t", "window_start_ns": 500, "window_end_ns": 600},
                 {"source_id": "u", "window_start_ns": 0, "window_end_ns": 100, "gpu_reason": "low_launch_coverage"}],
        kernels=[ran(-10, 10), ran(590, 610, source_id="t"), ran(0, 50, source_id="u")],
        expect=[{"launch_count": 2, "window_ns": 200, "queued_ns": 20, "empty_ratio": 0.9}],
    ),
    "a queue over slices of time": story(
        sources=[{"window_start_ns": 0, "window_end_ns": 4 * SLICE_NS}],
        kernels=[ran(SLICE_NS - 10, 3 * SLICE_NS), ran(SLICE_NS - 10, 3 * SLICE_NS + 10)],
        expect=[{"queued_ns": 2 * SLICE_NS + 20, "queue_max_count": 2, "queue_p50_count": 2,
                 "full_ratio": 0.0}],
    ),
    "an event at its launch waited for nothing": story(
        sources=SOURCES, kernels=[ran(10, 10)],
        expect=[{"launch_count": 1, "queued_ns": 0, "queue_max_count": 0, "empty_ratio": 1.0, "full_ratio": 0.0}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.stream_queues", STORIES, Parameters(queue_full_count=3))


@pytest.mark.parametrize("title", STORIES)
def test_stream_queues(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
