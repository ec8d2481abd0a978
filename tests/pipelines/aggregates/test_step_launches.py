"""What each step launched, wherever and whenever it ran."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def call(launch_id: int, occurrence: int | None = 0, **more: Any) -> Row:
    name = None if occurrence is None else "step"
    row = {"launch_id": launch_id, "step_name": name, "step_occurrence": occurrence, "is_kernel_producing": True}
    return {**row, **more}


def ran(event_id: int, start: int, end: int, occurrence: int | None = 0, **more: Any) -> Row:
    row = {"event_id": event_id, "start_ns": start, "end_ns": end, "effective_end_ns": end, "device_id": "d"}
    return {**call(0, occurrence), **row, **more}


def event(**row: Any) -> Row:
    return {k: v for k, v in row.items() if k not in ("is_kernel_producing", "effective_end_ns")}


def made(launches: int, producing: int, events: int, gpu: int, is_uncovered: bool = False, **more: Any) -> Row:
    row = {"launch_count": launches, "producing_launch_count": producing, "event_count": events, "gpu_time_ns": gpu}
    return {**row, "is_uncovered": is_uncovered, **more}


def kernels(*given: Row) -> list[Row]:
    return [{k: v for k, v in row.items() if k != "is_kernel_producing"} for row in given]


def copies(*given: Row) -> list[Row]:
    return [event(**row) for row in given]


STORIES: dict[str, Story] = {
    "late execution stays with the step that launched it": story(
        launches=[call(1, 0), call(2, 1)],
        kernels=kernels(ran(1, 900, 950, 0), ran(2, 500, 530, 1)),
        expect=[made(1, 1, 1, 50, step_occurrence=0), made(1, 1, 1, 30, step_occurrence=1)],
    ),
    "what overlaps on a device counts once, on two devices for each": story(
        launches=[call(1)],
        kernels=kernels(ran(1, 0, 100), ran(2, 50, 150), ran(3, 0, 100, device_id="e")),
        memops=copies(ran(1, 140, 160)),
        expect=[made(1, 1, 4, 260)],
    ),
    "an impossible kernel counts to its effective end": story(
        launches=[call(1)], kernels=kernels(ran(1, 0, 40, end_ns=900)), expect=[made(1, 1, 1, 40)]
    ),
    "a step with launches but no device events is uncovered": story(
        launches=[call(1), call(2)], expect=[made(2, 2, 0, 0, True)]
    ),
    "events without length show that the step was captured": story(
        launches=[call(1)], kernels=kernels(ran(1, 40, 40)), expect=[made(1, 1, 1, 0)]
    ),
    "a step that only recorded a graph is not uncovered": story(
        launches=[call(1, is_kernel_producing=False)], expect=[made(1, 0, 0, 0)]
    ),
    "launches and events outside steps are in none": story(
        launches=[call(1, None)], kernels=kernels(ran(1, 0, 40, None)), expect=[]
    ),
    "equal numbers of two names and two windows stay apart": story(
        launches=[call(1), call(2, step_name="batch"), call(1, source_id="t", attempt=1)],
        expect=[made(1, 1, 0, 0, True, step_name="batch"), made(1, 1, 0, 0, True, step_name="step"),
                made(1, 1, 0, 0, True, source_id="t", attempt=1)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.step_launches", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_step_launches(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
