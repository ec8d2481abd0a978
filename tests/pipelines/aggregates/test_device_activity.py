"""What each device did: precedence of classes, buckets, steps and windows (METRICS "Device ledger")."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

PARTS = ("compute_ns", "exposed_comm_ns", "exposed_mem_ns", "sync_idle_ns", "comm_ns", "overlapped_comm_ns")
WINDOW = {"window_start_ns": 0, "window_end_ns": 120}


def comp(start: int, end: int, **more: Any) -> Row:
    row = {"event_id": start, "start_ns": start, "effective_end_ns": end, "end_ns": end, "device_id": "d"}
    return {**row, "kernel_class": "gemm", **more}


def comm(start: int, end: int, **more: Any) -> Row:
    return comp(start, end, kernel_class="communication", **more)


def mem(start: int, end: int, kind: str = "memcpy") -> Row:
    return {"event_id": start, "kind": kind, "start_ns": start, "end_ns": end, "device_id": "d"}


def wait(start: int, end: int, is_blocking: bool = True) -> Row:
    return {"event_id": start, "start_ns": start, "end_ns": end, "is_blocking": is_blocking, "thread_id": 1}


def step(occurrence: int, start: int, end: int, **more: Any) -> Row:
    row = {"annotation_id": occurrence, "name": "step", "is_step": True, "step_occurrence": occurrence}
    return {**row, "start_ns": start, "end_ns": end, "duration_ns": end - start, **more}


def did(bucket: int, *parts: int, step: int | None = None, **more: Any) -> Row:
    row = {"bucket": bucket, "step_name": None if step is None else "step", "step_occurrence": step}
    return {**row, **dict(zip(PARTS, parts, strict=True)), **more}


def one(expect: list[Row], **given: list[Row]) -> Story:
    """A story of device `d` in a window of 120 ns, which is one bucket since a longer one stands beside it."""
    wide = {"source_id": "z", "window_start_ns": 1_000_000, "window_end_ns": 1_120_000}
    return story(**({"sources": [WINDOW, wide], "devices": [{"device_id": "d"}]} | given), expect=expect)


STORIES = {
    "compute hides communication and copies, communication hides copies": one(
        kernels=[comp(10, 40), comm(30, 60)], memops=[mem(0, 5), mem(35, 70), mem(65, 80, "memset")],
        expect=[did(0, 30, 20, 25, 0, 30, 10)],
    ),
    "kernels that overlap are one stretch of time": one(
        kernels=[comp(10, 50), comp(20, 60, stream_id=8), comp(25, 30, stream_id=9)], expect=[did(0, 50, 0, 0, 0, 0, 0)]
    ),
    "an impossible kernel counts to its effective end": one(
        kernels=[comp(10, 30, end_ns=110)], expect=[did(0, 20, 0, 0, 0, 0, 0)]
    ),
    "a wait holds only idle time, and only a blocking one": one(
        kernels=[comp(10, 40)], memops=[mem(40, 45)], syncs=[wait(5, 60), wait(50, 70), wait(70, 100, False)],
        expect=[did(0, 30, 0, 5, 30, 0, 0)],
    ),
    "events outside the window do not count, and those across its edge in part": one(
        kernels=[comp(-50, 10), comp(110, 900), comp(500, 600)], syncs=[wait(100, 700)],
        expect=[did(0, 20, 0, 0, 10, 0, 0)],
    ),
    "events without length leave no trace": one(kernels=[comp(10, 10)], memops=[mem(20, 20)], expect=[]),
    "steps share a device's time at their edges, and idle steps are there too": one(
        kernels=[comp(10, 40)],
        annotations=[step(0, 0, 20), step(1, 20, 35), step(2, 50, 60), step(3, 70, 90, is_closed=False),
                     step(9, 70, 90, is_step=False)],
        expect=[did(0, 5, 0, 0, 0, 0, 0), did(0, 10, 0, 0, 0, 0, 0, step=0), did(0, 15, 0, 0, 0, 0, 0, step=1),
                did(0, 0, 0, 0, 0, 0, 0, step=2)],
    ),
    "devices of a process wait together and work apart": one(
        devices=[{"device_id": "d"}, {"device_id": "e"}],
        kernels=[comp(10, 40), comp(20, 30, device_id="e")], syncs=[wait(10, 50)],
        expect=[did(0, 30, 0, 0, 10, 0, 0, device_id="d"), did(0, 10, 0, 0, 30, 0, 0, device_id="e")],
    ),
    "another process's wait is not this one's": story(
        sources=[WINDOW, {"source_id": "t", **WINDOW},
                 {"source_id": "z", "window_start_ns": 0, "window_end_ns": 120_000}],
        devices=[{"device_id": "d"}, {"device_id": "d", "source_id": "t"}],
        kernels=[comp(10, 40), comp(20, 40, source_id="t")], syncs=[{**wait(50, 60), "source_id": "t"}],
        expect=[did(0, 30, 0, 0, 0, 0, 0, source_id="s"), did(0, 20, 0, 0, 10, 0, 0, source_id="t")],
    ),
    "buckets count from the window's start": story(
        sources=[{"window_start_ns": 77, "window_end_ns": 77 + 1_200}], devices=[{"device_id": "d"}],
        kernels=[comp(77, 80), comp(85, 100)], memops=[mem(1_270, 1_290)],
        expect=[did(0, 5, 0, 0, 0, 0, 0), did(1, 10, 0, 0, 0, 0, 0), did(2, 3, 0, 0, 0, 0, 0),
                did(119, 0, 0, 7, 0, 0, 0)],
    ),
    "a window of 1,201 ns has buckets of 20 ns": story(
        sources=[{"window_start_ns": 0, "window_end_ns": 1_201}], devices=[{"device_id": "d"}],
        kernels=[comp(19, 21)], expect=[did(0, 1, 0, 0, 0, 0, 0), did(1, 1, 0, 0, 0, 0, 0)],
    ),
    "windows of one attempt share the width of the longest": story(
        sources=[{"window_start_ns": 0, "window_end_ns": 100},
                 {"source_id": "t", "window_start_ns": 5_000, "window_end_ns": 5_000 + 12_000},
                 {"source_id": "u", "attempt": 1, "window_start_ns": 0, "window_end_ns": 120}],
        devices=[{"device_id": "d"}, {"device_id": "d", "source_id": "u"}],
        kernels=[comp(0, 100), comp(0, 2, source_id="u")],
        expect=[did(0, 100, 0, 0, 0, 0, 0), did(0, 1, 0, 0, 0, 0, 0, attempt=1), did(1, 1, 0, 0, 0, 0, 0, attempt=1)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.device_activity", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_device_activity(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
