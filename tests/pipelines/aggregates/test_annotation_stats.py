"""Annotations by name: how often, how long, how much device time."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def said(annotation_id: int, duration: int | None, **more: Any) -> Row:
    row = {"annotation_id": annotation_id, "name": "fwd", "duration_ns": duration, "is_closed": duration is not None}
    return {**row, **more}


STORIES: dict[str, Story] = {
    "a range that was never closed is counted and in no duration": story(
        annotations=[said(1, 40), said(2, 10), said(3, 30), said(4, None), said(5, 20)],
        expect=[{"annotation_count": 5, "open_count": 1, "duration_sum_ns": 100, "duration_mean_ns": 25.0,
                 "duration_min_ns": 10, "duration_p50_ns": 20, "duration_p99_ns": 40, "duration_max_ns": 40}],
    ),
    "a name that was never closed has no durations": story(
        annotations=[said(1, None)],
        expect=[{"annotation_count": 1, "open_count": 1, "duration_sum_ns": None, "duration_p50_ns": None}],
    ),
    "device time adds up, and stays unknown where it is": story(
        annotations=[said(1, 1, gpu_exclusive_ns=10, gpu_time_ns=30), said(2, 1, gpu_exclusive_ns=5, gpu_time_ns=5),
                     said(3, 1, name="other")],
        expect=[{"name": "fwd", "gpu_exclusive_ns": 15, "gpu_time_ns": 35},
                {"name": "other", "gpu_exclusive_ns": None, "gpu_time_ns": None}],
    ),
    "sides, attempts and names stay apart, indexes and windows do not": story(
        annotations=[said(1, 1, index=1), said(2, 2, index=2), said(1, 4, source_id="t"), said(3, 8, side="device"),
                     said(4, 16, attempt=1), said(5, 32, name="bwd")],
        expect=[{"side": "device", "duration_sum_ns": 8}, {"side": "host", "name": "bwd", "duration_sum_ns": 32},
                {"side": "host", "name": "fwd", "duration_sum_ns": 7, "annotation_count": 3},
                {"attempt": 1, "duration_sum_ns": 16}],
    ),
    "inferred steps are no annotations of the program": story(
        annotations=[said(1, 1), said(-1, 5, name="inferred_step", is_step=True, is_inferred=True)],
        expect=[{"name": "fwd", "annotation_count": 1}],
    ),
    "a name that any range makes a step is a step": story(
        annotations=[said(1, 1, is_step=True), said(2, 1)], expect=[{"is_step": True, "annotation_count": 2}]
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.annotation_stats", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_annotation_stats(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
