"""Durations of annotations in bins of a width from the 1-2-5 series."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def said(annotation_id: int, duration: int | None, **more: Any) -> Row:
    row = {"annotation_id": annotation_id, "name": "fwd", "duration_ns": duration, "is_closed": duration is not None}
    return {**row, **more}


def bins(*edges_and_counts: tuple[int, int, int]) -> list[Row]:
    return [{"low_ns": low, "high_ns": high, "annotation_count": count} for low, high, count in edges_and_counts]


STORIES: dict[str, Story] = {
    "a spread of 80 ns has bins of 2 ns, and empty ones are left out": story(
        annotations=[said(1, 10), said(2, 11), said(3, 12), said(4, 89)],
        expect=bins((10, 12, 2), (12, 14, 1), (88, 90, 1)),
    ),
    "a spread of 81 ns has bins of 5 ns": story(
        annotations=[said(1, 10), said(2, 14), said(3, 90)], expect=bins((10, 15, 2), (90, 95, 1))
    ),
    "equal durations are one bin": story(annotations=[said(1, 7), said(2, 7)], expect=bins((7, 8, 2))),
    "ranges that are open or on a device are in no bin": story(
        annotations=[said(1, 7), said(2, None), said(3, 7, side="device")], expect=bins((7, 8, 1))
    ),
    "what is longer than the 99th percentile stands in one last bin": story(
        annotations=[*[said(i, 10) for i in range(198)], said(198, 5_000), said(199, 1_000)],
        expect=bins((10, 11, 198), (11, 5_001, 2)),
    ),
    "names and attempts stay apart, windows do not": story(
        annotations=[said(1, 7), said(1, 7, source_id="t"), said(2, 7, name="zoo"), said(3, 9, attempt=1)],
        expect=[{"name": "fwd", "attempt": 0, "annotation_count": 2},
                {"name": "zoo", "low_ns": 7, "annotation_count": 1},
                {"name": "fwd", "attempt": 1, "low_ns": 9, "annotation_count": 1}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.annotation_histogram", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_annotation_histogram(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
