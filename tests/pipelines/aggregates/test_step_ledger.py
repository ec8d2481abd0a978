"""The step ledger: each instant goes to the first live class, and all of them sum to the step."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

CLASSES = (
    "compute_ns", "exposed_comm_ns", "memcpy_ns", "memset_ns", "runtime_ns", "data_loading_ns", "host_work_ns",
    "other_ns",
)  # fmt: skip
S = 1_000_000_000
WINDOW = {"window_start_ns": 0, "window_end_ns": 100 * S}


def span(start: int, end: int, **more: Any) -> Row:
    return {"start_ns": start, "end_ns": end, **more}


def kernel(start: int, end: int, kernel_class: str = "gemm", **more: Any) -> Row:
    row = {"event_id": start, "effective_end_ns": end, "kernel_class": kernel_class, "device_id": "d"}
    return {**span(start, end), **row, **more}


def mem(start: int, end: int, kind: str) -> Row:
    return span(start, end, event_id=start, kind=kind, device_id="d")


def work(annotation_id: int, name: str, start: int, end: int, **more: Any) -> Row:
    return span(start, end, annotation_id=annotation_id, name=name, duration_ns=end - start, **more)


def step(occurrence: int, start: int, end: int, **more: Any) -> Row:
    row = work(1_000 + occurrence, "step", start, end, is_step=True, step_occurrence=occurrence, index=occurrence)
    return {**row, **more}


def made(duration: int, *classes: int | None, **more: Any) -> Row:
    given = classes or [None] * len(CLASSES)
    return {"duration_ns": duration, **dict(zip(CLASSES, given, strict=True)), "status": "complete", **more}


def one(expect: list[Row], **given: list[Row]) -> Story:
    return story(**({"sources": [WINDOW], "annotations": [step(0, 0, 100)]} | given), expect=expect)


UNCLOSED = {"is_closed": False, "end_ns": None, "duration_ns": None}


def launched(occurrence: int, **more: Any) -> Row:
    return {"step_name": "step", "step_occurrence": occurrence, **more}


PARTS = {
    "each instant goes to the first live class": one(
        kernels=[kernel(0, 20), kernel(10, 30, "communication")],
        memops=[mem(25, 40, "memcpy"), mem(35, 50, "memset")],
        launches=[span(45, 55, launch_id=1)],
        syncs=[span(55, 60, event_id=1, thread_id=1)],
        annotations=[step(0, 0, 100), work(1, "dataloader", 58, 70), work(2, "forward", 65, 90)],
        expect=[made(100, 20, 10, 10, 10, 10, 10, 20, 10, step_index=0, step_occurrence=0, start_ns=0, reason=None)],
    ),
    "a step in which nothing is live is other": one(expect=[made(100, 0, 0, 0, 0, 0, 0, 0, 100)]),
    "device work of both neighbours is clipped to the step": one(
        annotations=[step(0, 0, 100), step(1, 100, 250)],
        kernels=[kernel(90, 130), kernel(240, 900)],
        expect=[made(100, 10, 0, 0, 0, 0, 0, 0, 90), made(150, 40, 0, 0, 0, 0, 0, 0, 110)],
    ),
    "an impossible kernel counts to its effective end": one(
        kernels=[kernel(10, 30, end_ns=95)], expect=[made(100, 20, 0, 0, 0, 0, 0, 0, 80)]
    ),
    "kernels of several streams and devices count each instant once": one(
        kernels=[kernel(10, 50), kernel(20, 60, stream_id=8), kernel(30, 70, device_id="e")],
        expect=[made(100, 60, 0, 0, 0, 0, 0, 0, 40)],
    ),
    "calls and work of any thread count, data loading only on the thread of the steps": one(
        launches=[span(0, 10, launch_id=1, thread_id=5)],
        annotations=[
            step(0, 0, 100),
            work(1, "dataloader", 10, 90, thread_id=5),
            work(2, "next_batch", 20, 30),
            work(3, "prefetch", 40, 45, thread_id=5),
        ],
        expect=[made(100, 0, 0, 0, 0, 10, 10, 5, 75)],
    ),
    "markers between streams and device-side copies of ranges are no host work": one(
        syncs=[span(0, 50, event_id=1, thread_id=None, is_blocking=False)],
        annotations=[step(0, 0, 100), work(1, "forward", 0, 80, side="device", thread_id=None)],
        expect=[made(100, 0, 0, 0, 0, 0, 0, 0, 100)],
    ),
    "a range that was never closed has no time to give": one(
        annotations=[step(0, 0, 100), work(1, "forward", 0, 0) | UNCLOSED],
        expect=[made(100, 0, 0, 0, 0, 0, 0, 0, 100)],
    ),
    "a step over many slices of time sums exactly": one(
        annotations=[step(0, 3 * S + 1, 23 * S)],
        kernels=[kernel(S, 7 * S), kernel(12 * S, 30 * S, "communication")],
        expect=[made(20 * S - 1, 4 * S - 1, 11 * S, 0, 0, 0, 0, 0, 5 * S)],
    ),
    "other processes are not live in this one's step": one(
        sources=[WINDOW, {"source_id": "t", **WINDOW}],
        kernels=[kernel(0, 50, source_id="t")],
        launches=[span(50, 60, launch_id=1, source_id="t")],
        expect=[made(100, 0, 0, 0, 0, 0, 0, 0, 100)],
    ),
}

SEND = "ncclDevKernel_SendRecv"
ALL_TO_ALL = {"kernels": [kernel(0, 20), kernel(10, 60, "communication", short_name=SEND)]}


def sent(kernel_id: int, start: int, end: int, operation: str = "recv") -> Row:
    return span(start, end, kernel_id=kernel_id, operation=operation)


SENT = {
    "sends and receives outside compute are a part of exposed communication": one(
        annotations=[step(0, 0, 100), step(1, 100, 150)],
        kernels=[
            kernel(0, 20), kernel(50, 60), kernel(10, 40, "communication", short_name=SEND),
            kernel(30, 55, "communication", short_name=SEND), kernel(95, 120, "communication", short_name=SEND),
            kernel(80, 90, "communication", short_name="ncclDevKernel_AllReduce"),
        ],
        collectives=[sent(10, 10, 40), sent(30, 30, 55, "send"), sent(80, 80, 90, "allreduce"),
                     sent(95, 95, 120, "batch_isend_irecv")],
        # 20 to 50 and 95 to 100; 100 to 120.
        expect=[made(100, 30, 45, 0, 0, 0, 0, 0, 25, exposed_p2p_ns=35),
                made(50, 0, 20, 0, 0, 0, 0, 0, 30, exposed_p2p_ns=20)],
    ),
    "those that compute hides are 0, and where none ran there is no number": one(
        annotations=[step(0, 0, 100), step(1, 100, 150)],
        kernels=[kernel(0, 100), kernel(10, 40, "communication", short_name=SEND)],
        collectives=[sent(10, 10, 40)],
        expect=[made(100, 100, 0, 0, 0, 0, 0, 0, 0, exposed_p2p_ns=0),
                made(50, 0, 0, 0, 0, 0, 0, 0, 50, exposed_p2p_ns=None)],
    ),
    "a kernel of that name may be an all-to-all: its arguments say": one(
        **ALL_TO_ALL, collectives=[sent(10, 10, 60, "all_to_all")],
        expect=[made(100, 20, 40, 0, 0, 0, 0, 0, 40, exposed_p2p_ns=None)],
    ),
    "and where they do not, nobody knows": one(
        **ALL_TO_ALL, expect=[made(100, 20, 40, 0, 0, 0, 0, 0, 40, exposed_p2p_ns=None)],
    ),
    "coalesced calls of another operation are none": one(
        kernels=[kernel(10, 60, "communication", short_name="ncclDevKernel_AllGather_RING_LL")],
        collectives=[sent(10, 10, 60, "coalesced")],
        expect=[made(100, 0, 50, 0, 0, 0, 0, 0, 50, exposed_p2p_ns=None)],
    ),
    "coalesced sends in a kernel that tells nothing are": one(
        kernels=[kernel(10, 60, "communication", short_name="ncclDevKernel_Generic_4")],
        collectives=[sent(10, 10, 60, "coalesced")],
        expect=[made(100, 0, 50, 0, 0, 0, 0, 0, 50, exposed_p2p_ns=50)],
    ),
    "of a step without classes they are unknown too": one(
        sources=[WINDOW | {"gpu_reason": "low_launch_coverage"}],
        kernels=[kernel(10, 60, "communication", short_name=SEND)], collectives=[sent(10, 10, 60)],
        expect=[made(100, exposed_p2p_ns=None)],
    ),
}  # fmt: skip

WITHHELD = {
    "a step with launches but no device events is uncovered": one(
        step_launches=[launched(0, is_uncovered=True, launch_count=7)],
        expect=[made(100, status="uncovered", reason="uncovered", launch_count=7, gpu_time_ns=None)],
    ),
    "a step that ends after a cut window does not count": one(
        sources=[WINDOW | {"window_end_ns": 99}], expect=[made(100, status="cut", reason="capture_cut")]
    ),
    "a step that ends with its window counts": one(
        sources=[WINDOW | {"window_end_ns": 100}], expect=[made(100, 0, 0, 0, 0, 0, 0, 0, 100)]
    ),
    "a window of low coverage has no classes": one(
        sources=[WINDOW | {"gpu_reason": "low_launch_coverage"}],
        expect=[made(100, reason="low_launch_coverage", gpu_time_ns=None)],
    ),
    "without GPU activity the device classes are unknown, not 0": one(
        sources=[WINDOW | {"gpu_reason": "no_gpu_activity_captured"}],
        expect=[
            {
                "duration_ns": 100,
                "compute_ns": None,
                "exposed_comm_ns": None,
                "memcpy_ns": None,
                "memset_ns": None,
                "gpu_time_ns": None,
                "status": "complete",
                "reason": "no_gpu_activity_captured",
            }
        ],
    ),
    "device time that the step launched is kept, whenever it ran": one(
        step_launches=[launched(0, launch_count=3, gpu_time_ns=777)],
        expect=[made(100, 0, 0, 0, 0, 0, 0, 0, 100, launch_count=3, gpu_time_ns=777)],
    ),
    "only closed steps with a length are steps of the ledger": one(
        annotations=[step(0, 0, 0), step(1, 0, 50) | UNCLOSED, step(2, 50, 60), work(7, "epoch", 0, 99, rank=1)],
        expect=[made(10, 0, 0, 0, 0, 0, 0, 10, 0, step_occurrence=2)],
    ),
}


def counts(*occurrences: tuple[str, int]) -> list[Row]:
    return [{"source_id": source, "step_occurrence": n} for source, n in occurrences]


def windows(*bounds: tuple[str, int, int], **more: Any) -> list[Row]:
    return [{"source_id": s, "window_start_ns": a, "window_end_ns": b, "rank": 0, **more} for s, a, b in bounds]


def steps(source: str, first: int, *occurrences: int) -> list[Row]:
    return [step(n, first + 10 * n, first + 10 * n + 9, source_id=source) for n in occurrences]


NUMBERS = {
    "the windows of a process count on": one(
        sources=windows(("b", 0, 100), ("a", 200, 300), ("c", 400, 500)),
        annotations=[*steps("b", 0, 0, 1), *steps("a", 200, 0), *steps("c", 400, 0, 1)],
        expect=counts(("a", 2), ("b", 0), ("b", 1), ("c", 3), ("c", 4)),
    ),
    "each attempt counts from 0": one(
        sources=[*windows(("a", 0, 100)), *windows(("b", 200, 300), attempt=1)],
        annotations=[*steps("a", 0, 0, 1), *[row | {"attempt": 1} for row in steps("b", 200, 0)]],
        expect=counts(("a", 0), ("a", 1), ("b", 0)),
    ),
    "ranks count side by side": one(
        sources=[*windows(("a", 0, 100)), *windows(("b", 200, 300), rank=1)],
        annotations=[*steps("a", 0, 0), *[row | {"rank": 1} for row in steps("b", 200, 0)]],
        expect=counts(("a", 0), ("b", 0)),
    ),
    "windows that overlap are not one process's past": one(
        sources=windows(("a", 0, 100), ("b", 50, 150)),
        annotations=[*steps("a", 0, 0), *steps("b", 50, 0)],
        expect=counts(("a", 0), ("b", 0)),
    ),
    "a rank whose recording began a step later infers the same steps": one(
        sources=[*windows(("a", 0, 60), ("c", 200, 260)), *windows(("b", 9, 60), ("d", 200, 260), rank=1)],
        annotations=[
            row | {"name": "inferred_step", "is_inferred": True}
            for row in (
                *steps("a", 0, 0, 1, 2),
                *steps("c", 200, 0, 1),
                *[row | {"rank": 1} for row in (*steps("b", 11, 0, 1), *steps("d", 201, 0, 1))],
            )
        ],
        expect=[
            {"source_id": s, "step_occurrence": n}
            for s, n in (("a", 0), ("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 3), ("c", 4), ("d", 3), ("d", 4))
        ],
    ),
    "a step without length in an earlier window keeps its number": one(
        sources=windows(("a", 0, 100), ("b", 200, 300)),
        annotations=[*steps("a", 0, 0, 2), step(1, 10, 10, source_id="a"), *steps("b", 200, 0)],
        expect=counts(("a", 0), ("a", 2), ("b", 3)),
    ),
}

STORIES = {**PARTS, **SENT, **WITHHELD, **NUMBERS}


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.step_ledger", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_step_ledger(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
