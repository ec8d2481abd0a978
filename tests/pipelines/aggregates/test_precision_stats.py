"""Kernel time by class, precision and what the precision rests on."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def ran(event_id: int, duration: int, **more: Any) -> Row:
    row = {"event_id": event_id, "duration_ns": duration, "kernel_class": "gemm", "precision": "bf16"}
    return {**row, "precision_source": "name", "is_tensor_core": True, **more}


STORIES: dict[str, Story] = {
    "each evidence has its own time, and so has what is unknown": story(
        kernels=[ran(1, 10), ran(2, 20), ran(3, 40, precision_source="operator"), ran(4, 80, is_tensor_core=False),
                 ran(5, 160, precision="unknown", precision_source="none"), ran(6, 320, kernel_class="norm"),
                 ran(7, 640, attempt=1), ran(1, 1_280, source_id="t")],
        expect=[
            {"precision": "bf16", "precision_source": "name", "is_tensor_core": False, "duration_sum_ns": 80},
            {"precision": "bf16", "is_tensor_core": True, "kernel_count": 3, "duration_sum_ns": 1_310},
            {"precision": "bf16", "precision_source": "operator", "kernel_count": 1, "duration_sum_ns": 40},
            {"precision": "unknown", "precision_source": "none", "duration_sum_ns": 160},
            {"kernel_class": "norm", "duration_sum_ns": 320},
            {"attempt": 1, "kernel_class": "gemm", "duration_sum_ns": 640},
        ],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.precision_stats", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_precision_stats(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
