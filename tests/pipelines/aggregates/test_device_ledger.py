"""The device ledger: parts that sum to their scope, withheld where they are not known."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

PARTS = ("compute_ns", "exposed_comm_ns", "exposed_mem_ns", "sync_idle_ns", "comm_ns", "overlapped_comm_ns")
SUMS = ("window_ns", "compute_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns")
LOW = "low_launch_coverage"


def window(start: int, end: int, **more: Any) -> Row:
    return {"window_start_ns": start, "window_end_ns": end, "launch_coverage_ratio": 1.0, **more}


def did(bucket: int, *parts: int, step: int | None = None, **more: Any) -> Row:
    row = {"bucket": bucket, "step_name": None if step is None else "step", "step_occurrence": step}
    return {"device_id": "d", **row, **dict(zip(PARTS, parts, strict=True)), **more}


def step(occurrence: int, start: int, end: int, **more: Any) -> Row:
    row = {"annotation_id": occurrence, "name": "step", "is_step": True, "step_occurrence": occurrence}
    return {**row, "start_ns": start, "end_ns": end, "duration_ns": end - start, **more}


def line(scope: str, length: int, *parts: int | None, **more: Any) -> Row:
    return {"scope": scope, **dict(zip(SUMS, (length, *(parts or [None] * 4)), strict=True)), **more}


D = [{"device_id": "d"}]
# Two buckets of 1,000 ns, the second cut short by the window's end.
TWO = [window(100, 1_600, gpu_reason=None), window(10_000, 130_000, source_id="z")]

STORIES: dict[str, Story] = {
    "in each scope the parts sum to the whole": story(
        sources=TWO, devices=D, annotations=[step(0, 200, 700), step(1, 700, 1_550)],
        device_activity=[did(0, 100, 50, 30, 20, 80, 30, step=0), did(0, 300, 0, 0, 0, 0, 0, step=1),
                         did(1, 400, 0, 10, 40, 0, 0, step=1), did(1, 5, 0, 0, 0, 0, 0)],
        expect=[
            line("job", 1_500, 805, 50, 40, 605, sync_idle_ns=60, comm_ns=80, overlapped_comm_ns=30, source_id=None,
                 gpu_active_ratio=895 / 1_500, kernel_busy_ratio=855 / 1_500, comm_overlap_ratio=0.375, reason=None),
            line("bucket", 1_000, 400, 50, 30, 520, sync_idle_ns=20, bucket_start_ns=100, step_name=None),
            line("bucket", 500, 405, 0, 10, 85, sync_idle_ns=40, bucket_start_ns=1_100, comm_overlap_ratio=None),
            line("step", 500, 100, 50, 30, 320, step_name="step", step_occurrence=0, bucket_start_ns=None),
            line("step", 850, 700, 0, 10, 140, step_name="step", step_occurrence=1, gpu_active_ratio=710 / 850),
            line("window", 1_500, 805, 50, 40, 605, source_id="s", step_name=None, launch_coverage_ratio=1.0),
            line("window", 120_000, source_id="z", reason="no_gpu_activity_captured"),
        ],
    ),
    "a device that did nothing in a scope is idle there, not unknown": story(
        sources=[TWO[0] | {"window_end_ns": 101}], devices=D, device_activity=[],
        expect=[line("job", 1, 0, 0, 0, 1), line("bucket", 1, 0, 0, 0, 1), line("window", 1, 0, 0, 0, 1,
                gpu_active_ratio=0.0, comm_overlap_ratio=None)],
    ),
    "a window of low coverage is withheld in every scope": story(
        sources=[window(0, 1, gpu_reason=LOW, launch_coverage_ratio=0.5)], devices=D, annotations=[step(0, 0, 1)],
        device_activity=[did(0, 1, 0, 0, 0, 0, 0, step=0)],
        expect=[line(scope, 1, sync_idle_ns=None, gpu_active_ratio=None, kernel_busy_ratio=None, reason=LOW,
                     launch_coverage_ratio=0.5) for scope in ("job", "bucket", "step", "window")],
    ),
    "a withheld window is in no sum of the job, and said": story(
        sources=[window(0, 1), window(50, 51, source_id="t", gpu_reason=LOW, launch_coverage_ratio=0.5),
                 window(90, 91, source_id="u")],
        devices=[{**D[0], "source_id": name} for name in "stu"],
        device_activity=[did(0, 1, 0, 0, 0, 0, 0, source_id=name) for name in "stu"],
        expect=[line("job", 2, 2, 0, 0, 0, gpu_active_ratio=1.0, reason="partly_withheld", launch_coverage_ratio=0.5),
                line("bucket", 1, 1, 0, 0, 0), line("window", 1, 1, 0, 0, 0),
                line("bucket", 1, reason=LOW), line("window", 1, reason=LOW),
                line("bucket", 1, 1, 0, 0, 0), line("window", 1, 1, 0, 0, 0)],
    ),
    "gaps between windows are in no denominator": story(
        sources=[window(0, 1), window(1_000_000, 1_000_001, source_id="t")],
        devices=[{**D[0], "source_id": name} for name in "st"], device_activity=[did(0, 1, 0, 0, 0, 0, 0)],
        expect=[line("job", 2, 1, 0, 0, 1, gpu_active_ratio=0.5), line("bucket", 1, 1, 0, 0, 0),
                line("window", 1, 1, 0, 0, 0), line("bucket", 1, 0, 0, 0, 1), line("window", 1, 0, 0, 0, 1)],
    ),
    "attempts do not mix": story(
        sources=[window(0, 1), window(50, 51, source_id="t", attempt=1)],
        devices=[{**D[0], "source_id": name} for name in "st"], device_activity=[did(0, 1, 0, 0, 0, 0, 0)],
        expect=[line("job", 1, 1, 0, 0, 0, attempt=0), line("bucket", 1, 1, 0, 0, 0), line("window", 1, 1, 0, 0, 0),
                line("job", 1, 0, 0, 0, 1, attempt=1), line("bucket", 1, 0, 0, 0, 1), line("window", 1, 0, 0, 0, 1)],
    ),
    "an uncovered step is not idle": story(
        sources=[window(0, 1)], devices=D, annotations=[step(0, 0, 1), step(1, 1, 1)],
        step_launches=[{"step_name": "step", "step_occurrence": 0, "is_uncovered": True}],
        expect=[line("job", 1, 0, 0, 0, 1), line("bucket", 1, 0, 0, 0, 1),
                line("step", 1, reason="uncovered", gpu_active_ratio=None), line("window", 1, 0, 0, 0, 1)],
    ),
    "a step that ends after a cut window is left out": story(
        sources=[window(0, 1)], devices=D, annotations=[step(0, 0, 2)],
        device_activity=[did(0, 1, 0, 0, 0, 0, 0, step=0)],
        expect=[line("job", 1, 1, 0, 0, 0), line("bucket", 1, 1, 0, 0, 0), line("window", 1, 1, 0, 0, 0)],
    ),
    "a window whose capture failed keeps one row that says so": story(
        sources=[window(0, 1, gpu_reason="gpu_capture_failed", launch_coverage_ratio=0.0, rank=3, node_id="n")],
        expect=[line("window", 1, reason="gpu_capture_failed", device_id=None, rank=3, node_id="n",
                     launch_coverage_ratio=0.0, gpu_active_ratio=None)],
    ),
    "a window without length has no ratio": story(
        sources=[window(5, 5)], devices=D,
        expect=[line("job", 0, 0, 0, 0, 0, gpu_active_ratio=None),
                line("window", 0, 0, 0, 0, 0, gpu_active_ratio=None)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.device_ledger", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_device_ledger(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
