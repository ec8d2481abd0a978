"""Host calls by function: delays, slow calls, short kernels, and streams that explain a delay."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def call(launch_id: int, start: int, duration: int, delay: int | None = None, **more: Any) -> Row:
    row = {"launch_id": launch_id, "start_ns": start, "duration_ns": duration, "launch_delay_ns": delay}
    return {"api_name": "cudaLaunchKernel", "is_kernel_producing": True, "kernel_count": 1, **row, **more}


def ran(event_id: int, launch_id: int | None, start: int, duration: int, delay: int | None = None, **more: Any) -> Row:
    row = {"event_id": event_id, "launch_id": launch_id, "start_ns": start, "duration_ns": duration}
    ends = {"effective_end_ns": start + duration, "end_ns": start + duration}
    return {"device_id": "d", "stream_id": 7, **row, **ends, "launch_delay_ns": delay, **more}


US = 1_000

STORIES: dict[str, Story] = {
    "delays that are not known are in no statistic of delays": story(
        launches=[call(1, 0, 5, 40), call(2, 0, 5, 10), call(3, 0, 5, 30), call(4, 0, 5, 20), call(5, 0, 5),
                  call(6, 0, 5, flags=["before_launch"])],
        expect=[{"launch_count": 6, "launch_delay_count": 4, "launch_delay_mean_ns": 25.0, "launch_delay_p50_ns": 20,
                 "launch_delay_p99_ns": 40, "launch_delay_max_ns": 40, "before_launch_count": 1}],
    ),
    "without any delay there is no statistic of them, not 0": story(
        launches=[call(1, 0, 5)],
        expect=[{"launch_delay_count": 0, "launch_delay_mean_ns": None, "launch_delay_p50_ns": None,
                 "launch_delay_p99_ns": None, "launch_delay_max_ns": None, "short_kernel_count": 0}],
    ),
    "a call is slow above 50 us": story(
        launches=[call(1, 0, 50 * US), call(2, 0, 50 * US + 1), call(3, 0, 10)],
        expect=[{"slow_launch_count": 1, "duration_sum_ns": 100 * US + 11, "duration_min_ns": 10,
                 "duration_p50_ns": 50 * US, "duration_max_ns": 50 * US + 1}],
    ),
    "a kernel is short where its call took longer": story(
        launches=[call(1, 0, 5), call(2, 0, 5), call(3, 0, 5), call(4, 0, 5)],
        kernels=[ran(1, 1, 10, 4), ran(2, 2, 20, 5), ran(3, 3, 30, 6), ran(4, None, 40, 1)],
        expect=[{"short_kernel_count": 1, "launch_count": 4}],
    ),
    "each short kernel of a graph launch counts, the launch once": story(
        launches=[call(1, 0, 5, kernel_count=3, api_name="cudaGraphLaunch")],
        kernels=[ran(1, 1, 10, 4), ran(2, 1, 20, 3), ran(3, 1, 30, 60)],
        expect=[{"api_name": "cudaGraphLaunch", "launch_count": 1, "kernel_count": 3, "short_kernel_count": 2,
                 "covered_launch_count": 1}],
    ),
    "a delay above 100 us on a free stream is long": story(
        launches=[call(1, 0, 5, 100 * US), call(2, 300 * US, 5, 100 * US + 1)],
        kernels=[ran(1, 1, 100 * US, 10, 100 * US), ran(2, 2, 400 * US + 1, 10, 100 * US + 1)],
        expect=[{"long_delay_count": 1}],
    ),
    "a delay behind a busy stream is explained": story(
        launches=[call(1, 0, 5, 10), call(2, 0, 5, 300 * US)],
        kernels=[ran(1, 1, 10, 250 * US, 10), ran(2, 2, 300 * US, 10, 300 * US)],
        expect=[{"long_delay_count": 0}],
    ),
    "a stream that was free again for 100 us explains nothing": story(
        launches=[call(1, 0, 5, 10), call(2, 0, 5, 300 * US)],
        kernels=[ran(1, 1, 10, 150 * US, 10), ran(2, 2, 300 * US, 10, 300 * US)],
        expect=[{"long_delay_count": 1}],
    ),
    "another stream's or device's work explains nothing": story(
        launches=[call(1, 0, 5, 10), call(2, 0, 5, 10), call(3, 0, 5, 300 * US)],
        kernels=[ran(1, 1, 10, 290 * US, 10, stream_id=8), ran(2, 2, 10, 290 * US, 10, device_id="e"),
                 ran(3, 3, 300 * US, 10, 300 * US)],
        expect=[{"long_delay_count": 1}],
    ),
    "coverage counts launches that should produce": story(
        launches=[call(1, 0, 5), call(2, 0, 5, kernel_count=0),
                  call(3, 0, 5, kernel_count=0, is_kernel_producing=False),
                  call(4, 0, 5, kernel_count=0, api_name="cudaMemcpyAsync", is_kernel_producing=False)],
        expect=[{"launch_count": 3, "producing_launch_count": 2, "covered_launch_count": 1},
                {"api_name": "cudaMemcpyAsync", "launch_count": 1, "producing_launch_count": 0}],
    ),
    "equal launch numbers of two windows stay apart": story(
        launches=[call(1, 0, 5), call(1, 0, 50, source_id="t")], kernels=[ran(1, 1, 60, 20)],
        expect=[{"launch_count": 2, "short_kernel_count": 0}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.launch_stats", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_launch_stats(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
