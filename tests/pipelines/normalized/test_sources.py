"""Windows: where they begin and end, whether their device numbers count, and every row accounted for."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def kernel(start: int, end: int, effective_end: int | None = None, launch_id: int | None = 1, **more: Any) -> Row:
    row = {"event_id": start, "start_ns": start, "end_ns": end, "launch_id": launch_id}
    return {**row, "effective_end_ns": end if effective_end is None else effective_end, **more}


def copy(start: int, end: int, launch_id: int | None = 1) -> Row:
    return {"event_id": start, "start_ns": start, "end_ns": end, "launch_id": launch_id}


def call(launch_id: int, start: int, end: int, kernels: int = 1, is_producing: bool = True, **more: Any) -> Row:
    row = {"launch_id": launch_id, "start_ns": start, "end_ns": end, "kernel_count": kernels}
    return {**row, "is_kernel_producing": is_producing, **more}


def window(start: int | None, end: int | None, **more: Any) -> Row:
    return {"window_start_ns": start, "window_end_ns": end, **more}


WINDOWS = {
    "the recorder says its window": story(
        source=[{"window_start_ns": 10, "window_end_ns": 500, "host_start_ns": 20, "host_end_ns": 80}],
        kernels=[kernel(5, 90)],
        expect=[window(10, 500)],
    ),
    "an import's window reaches from the first start to the last effective end": story(
        source=[{"host_start_ns": 20, "host_end_ns": 80}],
        kernels=[kernel(30, 900, 120)],
        memops=[copy(25, 100)],
        launches=[call(1, 22, 24)],
        ranges=[{"start_ns": 15, "end_ns": 90}],
        expect=[window(15, 120)],
    ),
    "a copy can end an import's window": story(
        source=[{"host_start_ns": 20, "host_end_ns": 80}], memops=[copy(25, 300)], expect=[window(20, 300)]
    ),
    "a cut capture ends at its last effective device end": story(
        source=[{"host_start_ns": 20, "host_end_ns": 800, "status": "incomplete", "status_reason": "file_truncated"}],
        kernels=[kernel(30, 900, 120)],
        memops=[copy(60, 70)],
        expect=[window(20, 120, status="incomplete", status_reason="file_truncated")],
    ),
    "a cut capture without device events ends with its host events": story(
        source=[{"host_start_ns": 20, "host_end_ns": 800, "status": "incomplete"}], expect=[window(20, 800)]
    ),
    "a recorder's window that reached its event cap ends at its last device end": story(
        source=[{"window_start_ns": 10, "window_end_ns": 500, "host_start_ns": 20, "host_end_ns": 480,
                 "status": "incomplete", "status_reason": "event_cap"}],
        kernels=[kernel(30, 120)],
        expect=[window(10, 120)],
    ),
    "a window that is still open ends with what is there": story(
        source=[{"phase": "open", "status": "running", "window_start_ns": 10}],
        kernels=[kernel(30, 90)],
        launches=[call(1, 95, 99)],
        expect=[window(10, 99, status="running")],
    ),
    "the closing row says what the opening row could not": story(
        source=[{"phase": "open", "status": "running", "window_start_ns": 10, "rank": 3},
                {"phase": "close", "window_start_ns": 10, "window_end_ns": 70, "rank": 3}],
        expect=[window(10, 70, status="complete", rank=3)],
    ),
    "a window without any event has no times": story(expect=[window(None, None)]),
    "windows of one process stay apart": story(
        source=[{"source_id": "a", "host_start_ns": 0, "host_end_ns": 50},
                {"source_id": "b", "host_start_ns": 500, "host_end_ns": 550, "previous_source_id": "a"}],
        expect=[window(0, 50, previous_source_id=None), window(500, 550, previous_source_id="a")],
    ),
}  # fmt: skip


def judged(reason: str | None, coverage: float | None, status: str, why: str | None, **counts: int) -> Row:
    row = {"gpu_reason": reason, "launch_coverage_ratio": coverage, "status": status, "status_reason": why}
    return {**row, **{f"{name}_count": value for name, value in counts.items()}}


def calls(covered: int, bare: int) -> list[Row]:
    return [call(i, 1, 2, kernels=1 if i < covered else 0) for i in range(covered + bare)]


LOW = "low_launch_coverage"
GUARD = {
    "19 of 20 launches with a kernel are enough": story(
        kernels=[kernel(5, 9)], launches=calls(19, 1),
        expect=[judged(None, 0.95, "complete", None, producing_launch=20, covered_launch=19, kernel=1)],
    ),
    "18 of 19 are not": story(
        kernels=[kernel(5, 9)], launches=calls(18, 1),
        expect=[judged(LOW, 18 / 19, "degraded", LOW, producing_launch=19, covered_launch=18)],
    ),
    "a launch of many kernels counts once": story(
        kernels=[kernel(5, 9)], launches=[call(1, 1, 2, kernels=500), call(2, 1, 2, kernels=0)],
        expect=[judged(LOW, 0.5, "degraded", LOW, producing_launch=2, covered_launch=1)],
    ),
    "calls that produce no kernel are in neither count": story(
        kernels=[kernel(5, 9)], launches=[call(1, 1, 2), call(2, 1, 2, 0, False), call(3, 1, 2, 0, False)],
        expect=[judged(None, 1.0, "complete", None, producing_launch=1, covered_launch=1)],
    ),
    "without launches there is no coverage and no guard": story(
        kernels=[kernel(5, 9, launch_id=None)], expect=[judged(None, None, "complete", None, orphan=1)]
    ),
    "copies alone are GPU activity": story(
        memops=[copy(5, 9)], launches=[call(1, 1, 2, 0, False)], expect=[judged(None, None, "complete", None)]
    ),
    "launches and no GPU event at all is a failed capture": story(
        launches=[call(1, 1, 2, kernels=0)],
        expect=[judged("gpu_capture_failed", 0.0, "degraded", "gpu_capture_failed", kernel=0)],
    ),
    "no launches and no GPU events is a program without a GPU": story(
        source=[{"host_start_ns": 1, "host_end_ns": 9}],
        expect=[judged("no_gpu_activity_captured", None, "complete", None, kernel=0)],
    ),
    "a cut capture of low coverage keeps its own reason": story(
        source=[{"status": "incomplete", "status_reason": "file_truncated"}],
        kernels=[kernel(5, 9)], launches=calls(1, 1),
        expect=[judged(LOW, 0.5, "incomplete", "file_truncated")],
    ),
}  # fmt: skip


def rows_of(read: int, stored: int, quarantined: int, deduplicated: int, skipped: int) -> Row:
    counts = {"read": read, "stored": stored, "quarantined": quarantined, "deduplicated": deduplicated}
    return {f"rows_{name}": value for name, value in {**counts, "skipped": skipped}.items()}


COUNTED = {f"{name}_count": value for name, value in rows_of(100, 80, 5, 7, 8).items()}
FACTS = {
    "rows that a check set aside are no longer stored": story(
        source=[COUNTED],
        quarantine=[{"kind": "kernel", "rows_count": 2}, {"kind": "launch", "rows_count": 1}],
        expect=[rows_of(100, 77, 8, 7, 8)],
    ),
    "a window with a lost segment is incomplete, and says so": story(
        source=[{"status": "complete", "status_reason": None, **COUNTED}],
        quarantine=[{"kind": "kernel", "rows_count": 10, "reason": "segment_unreadable"}],
        expect=[{"status": "incomplete", "status_reason": "segment_lost", **rows_of(100, 70, 15, 7, 8)}],
    ),
    "rows that were lost on reading are counted once": story(
        source=[COUNTED], quarantine=[{"kind": "loss", "rows_count": 5}], expect=[rows_of(100, 80, 5, 7, 8)]
    ),
    "rows that another window set aside are not this one's": story(
        source=[COUNTED, {"source_id": "t", **COUNTED}],
        quarantine=[{"kind": "kernel", "rows_count": 2, "source_id": "t"}],
        expect=[rows_of(100, 80, 5, 7, 8), rows_of(100, 78, 7, 7, 8)],
    ),
    "the smallest shift that mends kernels before their launch is stored and not applied": story(
        source=[{"host_start_ns": 40, "host_end_ns": 90}],
        kernels=[kernel(44, 60), kernel(49, 70)],
        launches=[call(1, 50, 55, first_event_start_ns=44), call(2, 52, 56, first_event_start_ns=49),
                  call(3, 50, 56, first_event_start_ns=80)],
        expect=[
            window(40, 90, device_clock_offset_ns=6, flags=["rank_missing", "before_launch"], clock_offset_ns=None)
        ],
    ),
    "orphans are counted and flagged beside the input's flags": story(
        source=[{"flags": ["rank_missing"]}],
        kernels=[kernel(5, 9, launch_id=None), kernel(15, 19)], memops=[copy(5, 9, None)], launches=calls(1, 0),
        expect=[{"orphan_count": 2, "flags": ["rank_missing", "orphans"], "rank": None,
                 "device_clock_offset_ns": None}],
    ),
}  # fmt: skip

STORIES: dict[str, Story] = {**WINDOWS, **GUARD, **FACTS}


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.sources", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_sources(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
