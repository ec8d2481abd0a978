"""Collectives: the kernels whose arguments say what they run."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def ran(event_id: int, start: int, effective_end: int, **more: Any) -> Row:
    row = {"event_id": event_id, "start_ns": start, "effective_end_ns": effective_end, "rank": 1, "node_id": "n"}
    return {**row, "duration_ns": effective_end - start, **more}


SAID = {"collective_name": "allreduce", "group_id": "0", "group_size_count": 8, "message_bytes": 4096, "dtype": "Half"}

STORIES: dict[str, Story] = {
    "a collective says its group, its place in it and its bytes": story(
        kernel=[{"event_id": 1, "sequence": 12, **SAID}],
        kernels=[ran(1, 10, 40, device_id="d", kernel_class="communication")],
        expect=[{"kernel_id": 1, "operation": "allreduce", "group_id": "0", "group_size_count": 8, "sequence": 12,
                 "bytes": 4096, "dtype": "Half", "device_id": "d", "rank": 1, "node_id": "n", "start_ns": 10,
                 "end_ns": 40, "duration_ns": 30}],
    ),
    "an impossible end is cut": story(
        kernel=[{"event_id": 1, **SAID}], kernels=[ran(1, 10, 40, end_ns=900)],
        expect=[{"end_ns": 40, "duration_ns": 30, "sequence": None}],
    ),
    "a kernel whose arguments say nothing is no collective": story(
        kernel=[{"event_id": 1, **SAID, "collective_name": None}], kernels=[ran(1, 10, 40)], expect=[]
    ),
    "a kernel that a check set aside is no collective": story(kernel=[{"event_id": 1, **SAID}], expect=[]),
    "equal numbers of two windows stay apart": story(
        kernel=[{"event_id": 1, **SAID}, {"event_id": 1, **SAID, "source_id": "t", "message_bytes": 7}],
        kernels=[ran(1, 10, 40), ran(1, 20, 60, source_id="t")],
        expect=[{"bytes": 4096, "duration_ns": 30}, {"bytes": 7, "duration_ns": 40}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.collectives", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_collectives(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
