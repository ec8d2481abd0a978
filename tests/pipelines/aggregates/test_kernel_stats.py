"""Kernels by name: counts and exact percentiles (nearest rank)."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def ran(event_id: int, duration: int, **more: Any) -> Row:
    row = {"event_id": event_id, "name": "k", "duration_ns": duration, "precision": "bf16"}
    return {**row, "precision_source": "name", **more}


def stats(count: int, total: int, least: int, p50: int, p99: int, most: int, **more: Any) -> Row:
    row = {"kernel_count": count, "duration_sum_ns": total, "duration_mean_ns": total / count}
    least_to_most = {"duration_min_ns": least, "duration_p50_ns": p50, "duration_p99_ns": p99, "duration_max_ns": most}
    return {**row, **least_to_most, **more}


DAY = 86_400_000_000_000

STORIES: dict[str, Story] = {
    "the median of an even number is the lower of the middle ones": story(
        kernels=[ran(i, duration) for i, duration in enumerate((40, 10, 30, 20))],
        expect=[stats(4, 100, 10, 20, 40, 40)]
    ),
    "the 99th percentile of 100 is the second longest": story(
        kernels=[ran(i, i + 1) for i in range(100)], expect=[stats(100, 5050, 1, 50, 99, 100)]
    ),
    "the 99th percentile of 101 is the second longest too": story(
        kernels=[ran(i, i + 1) for i in range(101)], expect=[stats(101, 5151, 1, 51, 100, 101)]
    ),
    "a single kernel is all of its statistics": story(kernels=[ran(1, 0)], expect=[stats(1, 0, 0, 0, 0, 0)]),
    "durations of a day stay exact to the nanosecond": story(
        kernels=[ran(1, DAY + 1), ran(2, DAY + 3)],
        expect=[{"duration_min_ns": DAY + 1, "duration_p50_ns": DAY + 1, "duration_p99_ns": DAY + 3,
                 "duration_max_ns": DAY + 3, "duration_sum_ns": 2 * DAY + 4}],
    ),
    "precision, windows and devices do not part a name; the precision of most of its time speaks": story(
        kernels=[ran(1, 10), ran(2, 20, precision="fp32"), ran(3, 30, precision_source="operator"),
                 ran(1, 40, source_id="t", device_id="e")],
        expect=[stats(4, 100, 10, 20, 40, 40, precision="bf16", precision_source="name", precision_count=2,
                      device_count=2)],
    ),
    "attempts do not mix": story(
        kernels=[ran(1, 10), ran(1, 20, attempt=1, source_id="t")],
        expect=[stats(1, 10, 10, 10, 10, 10, attempt=0), stats(1, 20, 20, 20, 20, 20, attempt=1)],
    ),
    "names of 10 KB that differ at their end are two": story(
        kernels=[ran(1, 10, name="x" * 10_000 + "a"), ran(2, 20, name="x" * 10_000 + "b")],
        expect=[stats(1, 10, 10, 10, 10, 10), stats(1, 20, 20, 20, 20, 20)],
    ),
    "a kernel keeps its class and its use of tensor cores": story(
        kernels=[ran(1, 10, kernel_class="gemm", is_tensor_core=True, short_name="short")],
        expect=[{"kernel_class": "gemm", "is_tensor_core": True, "short_name": "short", "name": "k"}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.kernel_stats", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_kernel_stats(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
