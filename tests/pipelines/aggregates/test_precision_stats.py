"""Kernel time by class, precision and what the precision rests on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def ran(event_id: int, duration: int, **more: Any) -> Row:
    row = {"event_id": event_id, "duration_ns": duration, "kernel_class": "gemm", "precision": "bf16"}
    return {**row, "precision_source": "name", "is_tensor_core": True, **more}


def product(launch_id: int, name: str, shape: list[Any] | None, operator_id: int | None = None) -> Row:
    told = None if shape is None else json.dumps(shape)
    return {"launch_id": launch_id, "operator_id": operator_id or launch_id, "name": name, "shape": told}


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
    "products that could run in a shorter type are those in fp32 outside tensor cores": story(
        kernels=[ran(1, 10, precision="fp32", is_tensor_core=False), ran(2, 20, precision="fp32"),
                 ran(3, 40, precision="fp32", is_tensor_core=False, kernel_class="norm"),
                 ran(4, 80, precision="fp32", is_tensor_core=False, kernel_class="conv")],
        expect=[{"kernel_class": "conv", "fp32_product_ns": 80}, {"kernel_class": "gemm", "fp32_product_ns": 10},
                {"kernel_class": "gemm", "fp32_product_ns": 0}, {"kernel_class": "norm", "fp32_product_ns": 0}],
    ),
    "a product has two operations for each row, column and inner place": story(
        kernels=[ran(1, 10, launch_id=1), ran(2, 20, launch_id=2), ran(3, 40, launch_id=3), ran(4, 80, launch_id=None)],
        operators=[product(1, "aten::mm", [[2, 3], [3, 5]]), product(2, "aten::addmm", [[5], [2, 3], [3, 5], [], []]),
                   product(3, "aten::bmm", [[7, 2, 3], [7, 3, 5]])],
        expect=[{"duration_sum_ns": 150, "flops_known_ns": 70, "flops": 9.0 * 2 * 2 * 3 * 5}],
    ),
    "an operator with several kernels counts once": story(
        kernels=[ran(1, 10, launch_id=1), ran(2, 20, launch_id=2),
                 ran(3, 5, launch_id=2, precision_source="operator")],
        operators=[product(1, "aten::mm", [[2, 3], [3, 5]], 9), product(2, "aten::mm", [[2, 3], [3, 5]], 9)],
        expect=[{"precision_source": "name", "flops_known_ns": 30, "flops": 60.0},
                {"precision_source": "operator", "flops_known_ns": 5, "flops": 0.0}],
    ),
    "shapes that do not fit each other, are unknown or are of no product tell nothing": story(
        kernels=[ran(n, 10, launch_id=n) for n in range(1, 9)] + [ran(9, 10, launch_id=1, kernel_class="norm")],
        operators=[product(1, "aten::mm", [[2, 3], [4, 5]]), product(2, "aten::mm", None),
                   product(3, "aten::mm", [[2, 3]]), product(4, "aten::convolution", [[2, 3], [3, 5]]),
                   product(5, "aten::mm", [[2, 3], [7, 3, 5]]), product(6, "aten::mm", [[0, 3], [3, 5]]),
                   product(7, "aten::mm", [[[2, 3], [3, 5]]]), product(8, "aten::mm", [[2, 1.5], ["a"]])],
        expect=[{"kernel_class": "gemm", "flops_known_ns": 0, "flops": None}, {"kernel_class": "norm"}],
    ),
    "numbers too large for a product are none": story(
        kernels=[ran(1, 10, launch_id=1)],
        operators=[product(1, "aten::bmm", [[2**62, 2**62, 3], [2**62, 3, 2**62]])],
        expect=[{"flops_known_ns": 0, "flops": None}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.precision_stats", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_precision_stats(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
