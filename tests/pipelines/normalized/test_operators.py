"""Operators: for each launch the innermost one open on its thread."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def op(event_id: int, name: str, start: int, end: int, **more: Any) -> Row:
    return {"event_id": event_id, "name": name, "start_ns": start, "duration_ns": end - start, "thread_id": 1, **more}


def call(launch_id: int, start: int, **more: Any) -> Row:
    return {"launch_id": launch_id, "start_ns": start, "thread_id": 1, **more}


def around(launch_id: int, operator_id: int, name: str) -> Row:
    return {"launch_id": launch_id, "operator_id": operator_id, "name": name}


STACK = [op(1, "aten::linear", 0, 100), op(2, "aten::addmm", 10, 50), op(3, "aten::relu", 60, 90)]

STORIES: dict[str, Story] = {
    "the innermost operator open at the launch counts": story(
        operator=STACK, launches=[call(1, 5), call(2, 10), call(3, 50), call(4, 89), call(5, 99)],
        expect=[around(1, 1, "aten::linear"), around(2, 2, "aten::addmm"), around(3, 1, "aten::linear"),
                around(4, 3, "aten::relu"), around(5, 1, "aten::linear")],
    ),
    "a launch outside operators has none": story(operator=STACK, launches=[call(1, 100)], expect=[]),
    "operators of other threads and processes hold no launch": story(
        source=[{"source_id": "s"}, {"source_id": "t"}],
        operator=STACK, launches=[call(1, 20, thread_id=2), call(2, 20, source_id="t")], expect=[],
    ),
    "two launches of one operator are two rows": story(
        operator=[op(1, "aten::sum", 0, 100, dtype="float", shape="[[2]]")], launches=[call(1, 20), call(2, 30)],
        expect=[around(i, 1, "aten::sum") | {"dtype": "float", "shape": "[[2]]", "start_ns": 0, "end_ns": 100,
                                            "duration_ns": 100} for i in (1, 2)],
    ),
    "an operator without length holds no launch": story(
        operator=[*STACK, op(4, "aten::empty", 20, 20)], launches=[call(1, 20)], expect=[around(1, 2, "aten::addmm")]
    ),
    "an operator of many slices of time holds launches in all of them": story(
        operator=[op(1, "outer", 0, 30_000_000_000), op(2, "inner", 4_000_000_000, 12_000_000_000)],
        launches=[call(1, 11_000_000_000), call(2, 29_000_000_000)],
        expect=[around(1, 2, "inner"), around(2, 1, "outer")],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.operators", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_operators(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
