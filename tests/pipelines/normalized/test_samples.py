"""Samples: readings as recorded, with the window that they come from."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def read(at: int, monotonic: int, **more: Any) -> Row:
    row = {"at_ns": at, "monotonic_ns": monotonic, "entity_kind": "device", "entity_id": "GPU-a"}
    return {**row, "metric": "gpu_util_ratio", "value": 0.5, "is_valid": True, **more}


STORIES: dict[str, Story] = {
    "the monotonic clock orders the readings, whatever the wall clock does": story(
        source=[{"node_id": "n", "rank": 3, "attempt": 1}], sample=[read(500, 3), read(900, 2), read(100, 4)],
        expect=[{"monotonic_ns": 2, "at_ns": 900, "node_id": "n", "rank": 3, "attempt": 1},
                {"monotonic_ns": 3, "at_ns": 500}, {"monotonic_ns": 4, "at_ns": 100}],
    ),
    "a reading that failed is kept with its reason and without a value": story(
        sample=[read(1, 1, value=None, is_valid=False, reason="mig")],
        expect=[{"value": None, "is_valid": False, "reason": "mig"}],
    ),
    "readings at one instant of two windows stay apart": story(
        source=[{"source_id": "s", "node_id": "n"}, {"source_id": "t", "node_id": "m"}],
        sample=[read(1, 1), read(1, 1, source_id="t")],
        expect=[{"node_id": "n", "source_id": "s"}, {"node_id": "m", "source_id": "t"}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.samples", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_samples(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
