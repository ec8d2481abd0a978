"""Which devices a rank samples, and by which index its process knows them."""

from __future__ import annotations

from typing import Any

import pytest

from tracelake.recorder.sidecar.sampling import own_devices

FOUR = [{"index": index, "uuid": f"GPU-{letter}", "mig": False} for index, letter in enumerate("abcd")]
MIG = [*FOUR, {"index": 3, "uuid": "MIG-d1", "mig": True}]


def found(described: list[dict[str, Any]], visible: str | None, **identity: int | None) -> list[tuple[int, str]]:
    return [(device["index"], device["uuid"]) for device in own_devices(described, identity, visible)]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [(0, "GPU-a"), (1, "GPU-b"), (2, "GPU-c"), (3, "GPU-d")]),
        ("2,3", [(0, "GPU-c"), (1, "GPU-d")]),
        ("3,GPU-a", [(0, "GPU-d"), (1, "GPU-a")]),
        ("1,-1,2", [(0, "GPU-b")]),
        ("", []),
        ("MIG-d1", [(0, "MIG-d1")]),
    ],
)
def test_what_the_process_sees_is_numbered_as_it_sees_it(visible: str | None, expected: list[tuple[int, str]]) -> None:
    """Case 16: device 0 of a process with CUDA_VISIBLE_DEVICES=2,3 is the third of the machine."""
    assert found(MIG if visible == "MIG-d1" else FOUR, visible) == expected


def test_a_mig_instance_does_not_hide_its_gpu() -> None:
    assert found(MIG, "3") == [(0, "GPU-d")]
    assert found(MIG, None) == [(index, f"GPU-{letter}") for index, letter in enumerate("abcd")]


def test_ranks_that_see_the_same_devices_each_take_their_own() -> None:
    assert found(FOUR, None, local_rank=2, local_world_size=4) == [(2, "GPU-c")]
    assert found(FOUR, "2,3", local_rank=1, local_world_size=2) == [(1, "GPU-d")]
    assert found(FOUR, "2", local_rank=1, local_world_size=2) == [(0, "GPU-c")]
    assert found(FOUR, None, local_rank=0, local_world_size=1) == [
        (0, "GPU-a"), (1, "GPU-b"), (2, "GPU-c"), (3, "GPU-d")]  # fmt: skip
