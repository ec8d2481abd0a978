"""Host ranges: names and numbers, nesting, and which of them are steps (METRICS "Attribution")."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def said(event_id: int, text: str, start: int, end: int | None, **more: Any) -> Row:
    duration = None if end is None else end - start
    return {"event_id": event_id, "text": text, "start_ns": start, "duration_ns": duration, **more}


def named(text: str, name: str, index: int | None, is_step: bool = False) -> Story:
    return story(
        annotation=[said(1, text, 10, 20)], expect=[{"name": name, "index": index, "text": text, "is_step": is_step}]
    )


NAMES = {
    "step_12 is step 12": named("step_12", "step", 12, True),
    "ProfilerStep#12 is ProfilerStep 12": named("ProfilerStep#12", "ProfilerStep", 12, True),
    "step[3] is step 3": named("step[3]", "step", 3, True),
    "step12 is step 12 without a separator": named("step12", "step", 12, True),
    "train/step 5 is train/step 5": named("train/step 5", "train/step", 5, True),
    "Training Step 0 is Training Step 0": named("Training Step 0", "Training Step", 0, True),
    "iteration: 7 is iteration 7": named("iteration: 7", "iteration", 7, True),
    "batch-007 is batch 7": named("batch-007", "batch", 7, True),
    "step without a number is no step": named("step", "step", None),
    "step 5 of something is no step": named("my step 5", "my step", 5),
    "layer 7 is layer 7 and no step": named("layer 7", "layer", 7),
    "layer_[7] is layer 7": named("layer_[7]", "layer", 7),
    "conv1 keeps its number": named("conv1", "conv1", None),
    "a bare number is a name": named("12", "12", None),
    "a number inside stays inside": named("block 3 forward", "block 3 forward", None),
    "the largest numbers stay exact": named("shard_123456789012345678", "shard", 123456789012345678),
}


def place(annotation_id: int, parent: int | None, depth: int, *flags: str) -> Row:
    return {"annotation_id": annotation_id, "parent_id": parent, "depth": depth, "flags": list(flags)}


NESTING = {
    "ranges nest last in first out": story(
        annotation=[said(1, "a", 0, 100), said(2, "b", 10, 50), said(3, "c", 20, 30), said(4, "d", 60, 90)],
        expect=[place(1, None, 0), place(2, 1, 1), place(3, 2, 2), place(4, 1, 1)],
    ),
    "a range that starts when another ends is beside it": story(
        annotation=[said(1, "a", 0, 50), said(2, "b", 50, 90)], expect=[place(1, None, 0), place(2, None, 0)]
    ),
    "of two that start together the longer is around": story(
        annotation=[said(1, "short", 10, 20), said(2, "long", 10, 90)], expect=[place(1, 2, 1), place(2, None, 0)]
    ),
    "a range without length lies in what is open and holds nothing": story(
        annotation=[said(1, "a", 0, 100), said(2, "mark", 10, 10), said(3, "b", 10, 20), said(4, "mark", 0, 0)],
        expect=[place(1, None, 0), place(2, 3, 2), place(3, 1, 1), place(4, 1, 1)],
    ),
    "threads and processes do not nest in each other": story(
        source=[{"source_id": "s"}, {"source_id": "t"}],
        annotation=[said(1, "a", 0, 100), said(2, "b", 10, 50, thread_id=2), said(1, "c", 10, 50, source_id="t")],
        expect=[place(1, None, 0), place(2, None, 0), place(1, None, 0)],
    ),
    "a child that outlives its parent is kept and flagged": story(
        annotation=[said(1, "a", 0, 50), said(2, "b", 10, 80)],
        expect=[place(1, None, 0), place(2, 1, 1, "outlives_parent") | {"end_ns": 80, "duration_ns": 70}],
    ),
    "what starts in a child that outlived its parent lies in the child": story(
        annotation=[said(1, "a", 0, 50), said(2, "b", 10, 80), said(3, "c", 60, 70)],
        expect=[place(1, None, 0), {"annotation_id": 2, "parent_id": 1}, {"annotation_id": 3, "parent_id": 2}],
    ),
    "a range that was never closed has no duration and holds what follows": story(
        source=[{"host_end_ns": 100}],
        annotation=[said(1, "a", 0, None), said(2, "b", 10, 50)],
        expect=[
            place(1, None, 0, "not_closed") | {"is_closed": False, "duration_ns": None, "end_ns": None},
            place(2, 1, 1) | {"is_closed": True, "duration_ns": 40, "end_ns": 50},
        ],
    ),
    "a range whose thread is not known is kept": story(
        annotation=[said(1, "a", 0, 50, thread_id=None), said(2, "b", 10, 20, thread_id=None), said(3, "c", 15, 18)],
        expect=[place(1, None, 0), place(2, 1, 1), place(3, None, 0)],
    ),
    "device-side copies are no host ranges": story(
        annotation=[said(1, "step 1", 0, 50), said(2, "step 1", 5, 60, side="device", device_index=0, thread_id=None)],
        expect=[{"annotation_id": 1, "is_step": True}],
    ),
}


def step(annotation_id: int, occurrence: int | None) -> Row:
    return {"annotation_id": annotation_id, "is_step": occurrence is not None, "step_occurrence": occurrence}


STEPS = {
    "steps count in time order and the number is a label": story(
        annotation=[said(1, "step 7", 100, 150), said(2, "step 0", 200, 250), said(3, "step 7", 0, 50)],
        expect=[step(1, 1) | {"index": 7}, step(2, 2) | {"index": 0}, step(3, 0) | {"index": 7}],
    ),
    "each step name counts for itself": story(
        annotation=[said(1, "step 1", 0, 50), said(2, "train step 1", 60, 90), said(3, "step 2", 100, 150)],
        expect=[step(1, 0), step(2, 0), step(3, 1)],
    ),
    "each window counts for itself": story(
        source=[{"source_id": "s"}, {"source_id": "t"}],
        annotation=[said(1, "step 1", 0, 50), said(1, "step 2", 60, 90, source_id="t")],
        expect=[step(1, 0), step(1, 0)],
    ),
    "a step inside a step is none": story(
        annotation=[said(1, "ProfilerStep#1", 0, 100), said(2, "fwd", 5, 95), said(3, "step 1", 10, 90),
                    said(4, "ProfilerStep#2", 100, 200)],
        expect=[step(1, 0), step(2, None), step(3, None), step(4, 1)],
    ),
    "steps are those of the thread that runs most of them": story(
        annotation=[said(1, "step 1", 0, 50), said(2, "step 2", 50, 99), said(3, "batch 1", 0, 20, thread_id=2)],
        expect=[step(1, 0), step(2, 1), step(3, None)],
    ),
    "a step lies in any range that is none": story(
        annotation=[said(1, "epoch 1", 0, 100), said(2, "step 1", 10, 50), said(3, "step 2", 50, 90)],
        expect=[step(1, None), step(2, 0), step(3, 1)],
    ),
}  # fmt: skip

TOLD = {"starts_ns": [10, 40, 60], "end_ns": 90, "step_count": 3, "thread_id": 1}


def inferred(number: int, start: int, end: int) -> Row:
    times = {"start_ns": start, "end_ns": end, "duration_ns": end - start, "thread_id": 1, "depth": 0}
    names = {"name": "inferred_step", "index": None, "text": "inferred_step", "parent_id": None}
    flags = {"is_step": True, "is_closed": True, "is_inferred": True, "flags": []}
    return {"annotation_id": -1 - number, "step_occurrence": number, **times, **names, **flags}


INFERRED = {
    "inferred steps stand beside the ranges and change nothing about them": story(
        annotation=[said(1, "epoch", 0, 50), said(2, "forward", 30, 45)], step_periods=[TOLD],
        expect=[inferred(2, 60, 90), inferred(1, 40, 60), inferred(0, 10, 40),
                place(1, None, 0) | {"is_step": False, "is_inferred": False}, place(2, 1, 1)],
    ),
    "a window without rhythm has none": story(step_periods=[{"starts_ns": [], "reason": "no_period"}], expect=[]),
    "marked steps are not inferred": story(
        annotation=[said(1, "step 1", 0, 50)], expect=[{"is_step": True, "is_inferred": False}]
    ),
}  # fmt: skip

STORIES = {**NAMES, **NESTING, **STEPS, **INFERRED}


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.ranges", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_ranges(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
