"""Copies and fills by kind: sizes that are not said are in no sum."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def moved(event_id: int, duration: int, size: int | None, **more: Any) -> Row:
    row = {"event_id": event_id, "duration_ns": duration, "bytes": size, "kind": "memcpy", "direction": "htod"}
    return {**row, **more}


STORIES: dict[str, Story] = {
    "sizes that are not known are in no sum, their durations in no rate": story(
        memops=[moved(1, 10, 100), moved(2, 20, None), moved(3, 30, 300), moved(4, 40, 200), moved(5, 50, 0)],
        expect=[{"memop_count": 5, "sized_count": 4, "sum_bytes": 600, "p50_bytes": 100, "max_bytes": 300,
                 "sized_duration_sum_ns": 130, "duration_sum_ns": 150, "duration_mean_ns": 30.0, "duration_min_ns": 10,
                 "duration_p50_ns": 30, "duration_p99_ns": 50, "duration_max_ns": 50}],
    ),
    "without any size the sum is unknown, not 0": story(
        memops=[moved(1, 10, None)],
        expect=[{"memop_count": 1, "sized_count": 0, "sum_bytes": None, "p50_bytes": None, "max_bytes": None,
                 "sized_duration_sum_ns": 0, "duration_sum_ns": 10}],
    ),
    "kind, direction and memory part the rows": story(
        memops=[moved(1, 1, 1), moved(2, 2, 2, memory_kind="pinned"), moved(3, 4, 4, direction="dtoh"),
                moved(4, 8, 8, kind="memset", direction=None), moved(5, 16, 16, source_id="t"),
                moved(6, 32, 32, attempt=1)],
        expect=[{"kind": "memcpy", "direction": "dtoh", "sum_bytes": 4, "attempt": 0},
                {"kind": "memcpy", "direction": "htod", "memory_kind": None, "sum_bytes": 17},
                {"kind": "memcpy", "direction": "htod", "memory_kind": "pinned", "sum_bytes": 2},
                {"kind": "memset", "direction": None, "sum_bytes": 8},
                {"kind": "memcpy", "direction": "htod", "sum_bytes": 32, "attempt": 1}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.memop_stats", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_memop_stats(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
