"""Launches: what they started, whether they should have, and where they belong (METRICS "Coverage guard")."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def call(event_id: int, start: int, **more: Any) -> Row:
    row = {"event_id": event_id, "correlation_id": event_id, "start_ns": start, "duration_ns": 5, "thread_id": 1}
    return {**row, "api_name": "cudaLaunchKernel", **more}


def ran(event_id: int, start: int, correlation_id: int | None = None, **more: Any) -> Row:
    return {"event_id": event_id, "start_ns": start, "duration_ns": 10, "correlation_id": correlation_id, **more}


def started(launch_id: int, kernels: int, memops: int, first: int | None, delay: int | None, *flags: str) -> Row:
    row = {"launch_id": launch_id, "kernel_count": kernels, "memop_count": memops, "first_event_start_ns": first}
    return {**row, "launch_delay_ns": delay, "flags": list(flags)}


STARTED = {
    "a launch ends after its duration and knows its kernel": story(
        launch=[call(1, 10)],
        kernel=[ran(1, 30, 1)],
        expect=[started(1, 1, 0, 30, 20) | {"start_ns": 10, "end_ns": 15, "duration_ns": 5}],
    ),
    "a graph launch starts many kernels and is one launch": story(
        launch=[call(1, 10, api_name="cudaGraphLaunch")],
        kernel=[ran(1, 60, 1), ran(2, 30, 1), ran(3, 40, 1)],
        memop=[ran(1, 25, 1)],
        expect=[started(1, 3, 1, 25, 15) | {"is_kernel_producing": True}],
    ),
    "a launch without device events has no delay": story(launch=[call(1, 10)], expect=[started(1, 0, 0, None, None)]),
    "a first event before the launch is flagged and has no delay": story(
        launch=[call(1, 10)], kernel=[ran(1, 7, 1), ran(2, 30, 1)], expect=[started(1, 2, 0, 7, None, "before_launch")]
    ),
    "ids of 0, below 0 and none join nothing": story(
        launch=[call(1, 10, correlation_id=0), call(2, 10, correlation_id=-1), call(3, 10, correlation_id=None)],
        kernel=[ran(1, 30, 0), ran(2, 30, -1), ran(3, 30, None)],
        expect=[started(i, 0, 0, None, None) for i in (1, 2, 3)],
    ),
    "an id that comes round again starts what runs after its own launch": story(
        launch=[call(1, 10, correlation_id=5), call(2, 110, correlation_id=5)],
        kernel=[ran(1, 30, 5), ran(2, 110, 5)],
        expect=[started(1, 1, 0, 30, 20), started(2, 1, 0, 110, 0)],
    ),
    "equal ids of two processes never meet": story(
        source=[{"source_id": "s"}, {"source_id": "t"}],
        launch=[call(1, 10), call(1, 10, source_id="t")],
        kernel=[ran(1, 30, 1)],
        expect=[started(1, 1, 0, 30, 20), started(1, 0, 0, None, None)],
    ),
}


def apis(**produce: bool) -> Story:
    names = list(produce)
    calls = [call(i, 10, api_name=name, correlation_id=None) for i, name in enumerate(names)]
    return story(launch=calls, expect=[{"api_name": n, "is_kernel_producing": produce[n]} for n in names])


def capture(event_id: int, kind: str, at: int, thread: int = 1) -> Row:
    return {
        "event_id": event_id,
        "kind": f"stream_capture_{kind}",
        "start_ns": at,
        "duration_ns": 2,
        "thread_id": thread,
    }


def producing(launch_id: int, is_producing: bool) -> Row:
    flags = [] if is_producing else ["stream_capture"]
    return {"launch_id": launch_id, "is_kernel_producing": is_producing, "flags": flags}


PRODUCING = {
    "calls that must be followed by a kernel": apis(
        cudaLaunchKernel=True, cudaLaunchKernelExC=True, cudaLaunchCooperativeKernel=True,
        cudaLaunchCooperativeKernelMultiDevice=True, cuLaunchKernel=True, cuLaunchKernelEx=True,
        cuLaunchCooperativeKernel=True, hipLaunchKernel=True, hipModuleLaunchKernel=True, hipExtModuleLaunchKernel=True,
        hipExtLaunchKernel=True, cudaGraphLaunch=True, cuGraphLaunch=True, hipGraphLaunch=True,
    ),
    "a symbol's version does not change the call": apis(
        cudaLaunchKernel_v7000=True, cuLaunchKernel_ptsz=True, cudaLaunchKernelExC_v11060=True,
        cudaGraphLaunch_v10000=True,
    ),
    "copies, fills and host functions produce no kernel": apis(
        cudaMemcpyAsync=False, cudaMemsetAsync=False, cuMemcpyDtoHAsync_v2=False, cudaLaunchHostFunc=False
    ),
    "launches between capture begin and end on their thread only record": story(
        launch=[call(1, 5), call(2, 20), call(3, 60), call(4, 20, thread_id=2), call(5, 120), call(6, 160)],
        sync=[capture(1, "begin", 10), capture(2, "end", 50), capture(3, "begin", 100), capture(4, "end", 150)],
        expect=[producing(1, True), producing(2, False), producing(3, True), producing(4, True), producing(5, False),
                producing(6, True)],
    ),
    "a capture that never ends records to the end": story(
        launch=[call(1, 5), call(2, 20)],
        sync=[capture(1, "begin", 10), {"event_id": 2, "kind": "stream_synchronize", "start_ns": 12, "thread_id": 1}],
        expect=[producing(1, True), producing(2, False)],
    ),
}  # fmt: skip


def named(
    annotation_id: int, start: int, end: int | None, parent: int | None = None, depth: int = 0, **more: Any
) -> Row:
    row = {"annotation_id": annotation_id, "start_ns": start, "end_ns": end, "parent_id": parent, "depth": depth}
    return {"name": "a", **row, **more}


def step(annotation_id: int, start: int, end: int | None, occurrence: int, **more: Any) -> Row:
    return named(annotation_id, start, end, name="step", is_step=True, step_occurrence=occurrence, **more)


def at(launch_id: int, occurrence: int | None, annotation_id: int | None) -> Row:
    row = {"launch_id": launch_id, "step_name": None if occurrence is None else "step"}
    return {**row, "step_occurrence": occurrence, "annotation_id": annotation_id}


STEPS = [step(1, 100, 200, 0), step(2, 200, 300, 1), named(3, 120, 150, 1, 1), named(4, 130, 140, 3, 2)]
ATTRIBUTED = {
    "a launch belongs to the innermost range open at its start": story(
        launch=[call(1, 99), call(2, 100), call(3, 125), call(4, 130), call(5, 139), call(6, 140), call(7, 199)],
        ranges=STEPS,
        expect=[at(1, None, None), at(2, 0, 1), at(3, 0, 3), at(4, 0, 4), at(5, 0, 4), at(6, 0, 3), at(7, 0, 1)],
    ),
    "the end of a step is the next one's": story(
        launch=[call(1, 200), call(2, 300)], ranges=STEPS, expect=[at(1, 1, 2), at(2, None, None)]
    ),
    "a launch on another thread belongs to the step and to the step thread's range": story(
        launch=[call(1, 135, thread_id=2), call(2, 250, thread_id=2)], ranges=STEPS, expect=[at(1, 0, 4), at(2, 1, 2)]
    ),
    "a range of the launching thread is nearer than the step thread's": story(
        launch=[call(1, 135, thread_id=2), call(2, 190, thread_id=2)],
        ranges=[*STEPS, named(9, 110, 180, thread_id=2)],
        expect=[at(1, 0, 9), at(2, 0, 1)],
    ),
    "a range of a third thread holds nobody else's launch": story(
        launch=[call(1, 400, thread_id=2)], ranges=[*STEPS, named(9, 350, 500, thread_id=3)], expect=[at(1, None, None)]
    ),
    "a launch whose thread is not known falls to the step thread": story(
        launch=[call(1, 135, thread_id=None)], ranges=STEPS, expect=[at(1, 0, 4)]
    ),
    "an inferred step is no annotation, and its thread's ranges hold what no range of the own thread does": story(
        launch=[call(1, 110), call(2, 150), call(3, 190), call(4, 260, thread_id=2)],
        ranges=[
            named(-1, 100, 200, name="inferred_step", is_step=True, is_inferred=True, step_occurrence=0),
            named(-2, 200, 300, name="inferred_step", is_step=True, is_inferred=True, step_occurrence=1),
            named(1, 140, 270),
            named(2, 145, 160, 1, 1),
        ],
        expect=[
            {"annotation_id": a, "step_name": "inferred_step", "step_occurrence": o}
            for a, o in ((None, 0), (2, 0), (1, 0), (1, 1))
        ],
    ),
    "steps of another process hold no launch": story(
        source=[{"source_id": "s"}, {"source_id": "t"}],
        launch=[call(1, 135, source_id="t")],
        ranges=STEPS,
        expect=[at(1, None, None)],
    ),
    "a range that was never closed is open for ever": story(
        launch=[call(1, 5), call(2, 9_000_000_000)],
        ranges=[named(1, 10, None)],
        expect=[at(1, None, None), at(2, None, 1)],
    ),
    "a step of many slices of time holds launches in all of them": story(
        launch=[call(1, 14_000_000_000)],
        ranges=[step(1, 1_000_000_000, 20_000_000_000, 0), named(2, 3_000_000_000, 18_000_000_000, 1, 1)],
        expect=[at(1, 0, 2)],
    ),
    "a range that outlives its parent stays open after it": story(
        launch=[call(1, 40), call(2, 60), call(3, 90), call(4, 120)],
        ranges=[named(1, 0, 50), named(2, 10, 80, 1, 1), named(3, 110, 130)],
        expect=[at(1, None, 2), at(2, None, 2), at(3, None, None), at(4, None, 3)],
    ),
}

STORIES = {**STARTED, **PRODUCING, **ATTRIBUTED}


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.launches", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_launches(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
