"""Devices: those that a window used, and what the input says about them."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

LISTED = (
    '[{"index": 0, "uuid": "GPU-a", "name": "H200", "memory_bytes": 150754820096, "sm_count": 132,'
    ' "compute_capability": "9.0"}, {"index": 1, "uuid": "GPU-b"}]'
)


def on(index: int | None, source_id: str = "s") -> Row:
    return {"device_index": index, "source_id": source_id}


def used(device_id: str, index: int | None, **more: Any) -> Row:
    return {"device_id": device_id, "device_index": index, **more}


STORIES: dict[str, Story] = {
    "a device with any kernel is one row with what the input says": story(
        source=[{"devices": LISTED, "node_id": "n"}], kernel=[on(0), on(0)],
        expect=[used("GPU-a", 0, device_uuid="GPU-a", name="H200", memory_bytes=150754820096, sm_count=132,
                     compute_capability="9.0", node_id="n")],
    ),
    "a copy uses a device too, a listed device without events does not": story(
        source=[{"devices": LISTED}], memop=[on(1)], expect=[used("GPU-b", 1, name=None, sm_count=None)]
    ),
    "a device that the input does not list is known by its place": story(
        source=[{"devices": LISTED, "node_id": "n"}], kernel=[on(3)], memop=[on(0)],
        expect=[used("GPU-a", 0), used("n/gpu3", 3, device_uuid=None, name=None)],
    ),
    "GPU 0 of two ranks without UUID and node are two devices": story(
        source=[{"rank": 0}, {"source_id": "t", "rank": 1}], kernel=[on(0), on(0, "t")],
        expect=[used("rank0/gpu0", 0), used("rank1/gpu0", 0)],
    ),
    "GPU 0 of two windows of which nothing is known are two devices": story(
        source=[{"source_id": "aaaaaaaaaaaaaa-0"}, {"source_id": "aaaaaaaaaaaaaa-1"}],
        kernel=[on(0, "aaaaaaaaaaaaaa-0"), on(0, "aaaaaaaaaaaaaa-1")],
        expect=[used("aaaaaaaaaaaa-0/gpu0", 0), used("aaaaaaaaaaaa-1/gpu0", 0)],
    ),
    "an input that lists no devices has them all the same": story(
        source=[{"devices": "", "node_id": "n"}], kernel=[on(0), on(1)], expect=[used("n/gpu0", 0), used("n/gpu1", 1)]
    ),
    "one device that two processes use is one device of both": story(
        source=[{"devices": LISTED}, {"source_id": "t", "devices": LISTED}], kernel=[on(0), on(0, "t")],
        expect=[used("GPU-a", 0, source_id="s"), used("GPU-a", 0, source_id="t")],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.devices", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_devices(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
