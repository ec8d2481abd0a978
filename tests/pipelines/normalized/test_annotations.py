"""Annotations: the device time that each range launched (METRICS "Attribution")."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Told, story


def said(annotation_id: int, start: int, end: int, parent: int | None = None, depth: int = 0, **more: Any) -> Row:
    row = {"annotation_id": annotation_id, "start_ns": start, "end_ns": end, "parent_id": parent, "depth": depth}
    return {"duration_ns": end - start, **row, **more}


def ran(event_id: int, annotation_id: int | None, start: int, end: int, **more: Any) -> Row:
    row = {"event_id": event_id, "annotation_id": annotation_id, "start_ns": start, "effective_end_ns": end}
    return {**row, "end_ns": end, **more}


def moved(event_id: int, annotation_id: int | None, start: int, end: int) -> Row:
    return {"event_id": event_id, "annotation_id": annotation_id, "start_ns": start, "end_ns": end, "kind": "memcpy"}


def gpu(annotation_id: int, exclusive: int | None, inclusive: int | None, span: int | None) -> Row:
    row = {"annotation_id": annotation_id, "gpu_exclusive_ns": exclusive, "gpu_time_ns": inclusive}
    return {**row, "gpu_span_ns": span}


NEST = [said(1, 0, 100), said(2, 10, 50, 1, 1), said(3, 20, 30, 2, 2), said(4, 60, 90, 1, 1)]

STORIES = {
    "a range has its own device time and that of the ranges inside it": story(
        ranges=NEST,
        kernels=[ran(1, 1, 5, 15), ran(2, 2, 100, 120), ran(3, 3, 200, 230), ran(4, 4, 300, 340)],
        expect=[gpu(1, 10, 100, 335), gpu(2, 20, 50, 130), gpu(3, 30, 30, 30), gpu(4, 40, 40, 40)],
    ),
    "kernels that overlap on a device count once": story(
        ranges=NEST[:2],
        kernels=[ran(1, 1, 0, 100), ran(2, 1, 50, 150), ran(3, 2, 90, 160)],
        memops=[moved(1, 2, 155, 170)],
        expect=[gpu(1, 150, 170, 170), gpu(2, 80, 80, 80)],
    ),
    "kernels that overlap on two devices count for each": story(
        ranges=NEST[:1],
        kernels=[ran(1, 1, 0, 100, device_id="a"), ran(2, 1, 50, 150, device_id="b")],
        expect=[gpu(1, 200, 200, 150)],
    ),
    "an impossible kernel counts to its effective end": story(
        ranges=NEST[:1], kernels=[ran(1, 1, 0, 40, end_ns=9_000)], expect=[gpu(1, 40, 40, 40)]
    ),
    "a range without device events has 0 where others have some, and no span": story(
        ranges=[said(1, 0, 50), said(2, 60, 90)], kernels=[ran(1, 1, 5, 15)],
        expect=[gpu(1, 10, 10, 10), gpu(2, 0, 0, None)],
    ),
    "without any device event in the window device time is unknown": story(
        source=[{"source_id": "s"}, {"source_id": "t"}],
        ranges=[said(1, 0, 50)], kernels=[ran(1, None, 5, 15, source_id="t")],
        expect=[gpu(1, None, None, None)],
    ),
    "an event outside ranges belongs to none": story(
        ranges=NEST[:1], kernels=[ran(1, None, 5, 15)], expect=[gpu(1, 0, 0, None)]
    ),
    "work over many slices of time adds up": story(
        ranges=NEST[:1], kernels=[ran(1, 1, 4_999_999_990, 15_000_000_010)],
        expect=[gpu(1, 10_000_000_020, 10_000_000_020, 10_000_000_020)],
    ),
    "equal numbers of two windows stay apart": story(
        source=[{"source_id": "s"}, {"source_id": "t"}],
        ranges=[said(1, 0, 50), said(1, 0, 50, source_id="t")],
        kernels=[ran(1, 1, 5, 15), ran(1, 1, 5, 25, source_id="t")],
        expect=[gpu(1, 10, 10, 10), gpu(1, 20, 20, 20)],
    ),
    "what starts in a child that outlived its parent is the child's": story(
        ranges=[said(1, 0, 50), said(2, 10, 80, 1, 1), said(3, 60, 70, 2, 2)],
        kernels=[ran(1, 3, 62, 66)],
        expect=[{"annotation_id": 1, "gpu_exclusive_ns": 0}, gpu(2, 0, 4, 4),
                gpu(3, 4, 4, 4)],
    ),
    "an inferred step has what it launched, its own is what lies in no range; it is in no range itself": story(
        ranges=[said(1, 0, 60),
                *[said(-1 - n, start, end, name="inferred_step", step_occurrence=n, is_step=True, is_inferred=True)
                  for n, start, end in ((0, 10, 50), (1, 50, 90))]],
        kernels=[ran(1, 1, 100, 110), *[ran(n, a, 100 * n, 100 * n + 20, step_name="inferred_step", step_occurrence=o)
                                        for n, a, o in ((2, 1, 0), (3, None, 0), (4, None, 1))]],
        expect=[gpu(-2, 20, 20, 20) | {"is_inferred": True}, gpu(-1, 20, 40, 120), gpu(1, 30, 30, 120)],
    ),
    "a step keeps what ranges say of it": story(
        ranges=[said(1, 0, 50, name="step", index=4, is_step=True, step_occurrence=2, flags=["not_closed"])],
        expect=[{"side": "host", "name": "step", "index": 4, "is_step": True, "step_occurrence": 2, "depth": 0,
                 "device_id": None, "flags": ["not_closed"], "duration_ns": 50}],
    ),
    "a device-side copy is kept and makes no step and no nesting": story(
        source=[{"node_id": "n"}],
        annotation=[{"event_id": 7, "side": "device", "text": "step_12", "thread_id": None, "device_index": 1,
                     "start_ns": 5, "duration_ns": 20}, {"event_id": 8, "text": "step_12", "start_ns": 5}],
        expect=[{"annotation_id": 7, "side": "device", "name": "step", "index": 12, "device_id": "n/gpu1",
                 "is_step": False, "step_occurrence": None, "depth": None, "parent_id": None, "end_ns": 25,
                 "duration_ns": 20, "is_closed": True, "gpu_time_ns": None, "flags": []}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.annotations", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_annotations(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
