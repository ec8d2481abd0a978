"""Utilization over time: devices, nodes as their mean, and what samples say beside it."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

FROM_LEDGER = ("compute_ratio", "exposed_comm_ratio", "gpu_active_ratio", "kernel_busy_ratio")
LOW = "low_launch_coverage"
# 120 buckets of 10 ns.
WINDOW = {"window_start_ns": 1_000, "window_end_ns": 2_200, "node_id": "n"}


def bucket(device_id: str, start: int, compute: int | None, **more: Any) -> Row:
    """A bucket of 10 ns of the device ledger with `compute` and 1 ns of exposed communication."""
    known: Row = {"compute_ns": compute, "exposed_comm_ns": None if compute is None else 1}
    if compute is not None:
        known |= {"gpu_active_ratio": (compute + 2) / 10, "kernel_busy_ratio": (compute + 1) / 10}
    row = {"device_id": device_id, "scope": "bucket", "bucket_start_ns": start, "window_ns": 10, "source_id": "s"}
    return {"node_id": "n", "rank": 0, **row, **known, **more}


def sample(at: int, value: float | None, kind: str = "device", **more: Any) -> Row:
    metric = "gpu_util_ratio" if kind == "device" else "cpu_util_ratio"
    row = {"at_ns": at, "monotonic_ns": at, "entity_kind": kind, "entity_id": "d", "metric": metric, "node_id": "n"}
    return {**row, "value": value, "is_valid": value is not None, **more}


def four(entity_id: str, values: tuple[float | None, ...], coverage: float, **more: Any) -> list[Row]:
    row = {"entity_id": entity_id, "coverage_ratio": coverage, **more}
    return [{"metric": m, "value_ratio": v, **row} for m, v in zip(FROM_LEDGER, values, strict=True)]


def seen(metric: str, start: int, value: float | None, coverage: float, **more: Any) -> Row:
    row = {"metric": metric, "bucket_start_ns": start, "value_ratio": value, "coverage_ratio": coverage}
    return {**row, "bucket_ns": 10, **more}


NONE = (None, None, None, None)

STORIES: dict[str, Story] = {
    "a node is the mean over its devices": story(
        sources=[WINDOW],
        device_ledger=[bucket("a", 1_000, 8), bucket("b", 1_000, 2)],
        expect=[*four("n", (0.5, 0.1, 0.7, 0.6), 1.0, entity_kind="node", source_id=None, bucket_start_ns=1_000),
                *four("a", (0.8, 0.1, 1.0, 0.9), 1.0, entity_kind="device", source_id="s", rank=0, bucket_ns=10),
                *four("b", (0.2, 0.1, 0.4, 0.3), 1.0, entity_kind="device", reason=None)],
    ),
    "a withheld device is in no mean, and the coverage says so": story(
        sources=[WINDOW],
        device_ledger=[bucket("a", 1_000, 8), bucket("b", 1_000, None, reason=LOW)],
        expect=[*four("n", (0.8, 0.1, 1.0, 0.9), 0.5, reason=None), *four("a", (0.8, 0.1, 1.0, 0.9), 1.0),
                *four("b", NONE, 0.0, reason=LOW)],
    ),
    "a node of withheld devices has no value but a reason": story(
        sources=[WINDOW], device_ledger=[bucket("b", 1_000, None, reason=LOW)],
        expect=[*four("n", NONE, 0.0, reason=LOW), *four("b", NONE, 0.0, reason=LOW)],
    ),
    "other scopes of the ledger are no time series": story(
        sources=[WINDOW],
        device_ledger=[bucket("a", 1_000, 8, scope=scope, bucket_start_ns=None) for scope in ("window", "job", "step")],
        expect=[],
    ),
    "a device without a node is in no node's mean": story(
        sources=[WINDOW | {"node_id": None}], device_ledger=[bucket("a", 1_000, 8, node_id=None)],
        expect=four("a", (0.8, 0.1, 1.0, 0.9), 1.0, node_id=None),
    ),
    "windows of two processes of a node share its grid": story(
        sources=[WINDOW, WINDOW | {"source_id": "t"}],
        device_ledger=[bucket("a", 1_010, 8), bucket("b", 1_010, 2, source_id="t", rank=1)],
        expect=[*four("n", (0.5, 0.1, 0.7, 0.6), 1.0, bucket_start_ns=1_010), *four("a", (0.8, 0.1, 1.0, 0.9), 1.0),
                *four("b", (0.2, 0.1, 0.4, 0.3), 1.0, rank=1)],
    ),
    "sampled utilization averages valid samples only, next to its coverage": story(
        sources=[WINDOW],
        samples=[sample(1_000, 0.5), sample(1_004, None, reason="lost"), sample(1_009, 1.0), sample(1_010, 0.25)],
        expect=[seen("gpu_util_sampled_ratio", 1_000, 0.75, 2 / 3, reason=None, entity_kind="device", entity_id="d"),
                seen("gpu_util_sampled_ratio", 1_010, 0.25, 1.0)],
    ),
    "a bucket is as wide as the sampler needs, so that none stands empty between two readings": story(
        sources=[WINDOW],
        samples=[sample(1_000, 0.5), sample(1_025, 1.0), sample(1_050, 0.25), sample(1_075, 0.75)],
        expect=[seen("gpu_util_sampled_ratio", 1_000, 0.75, 1.0, bucket_ns=30),
                seen("gpu_util_sampled_ratio", 1_030, 0.25, 1.0, bucket_ns=30),
                seen("gpu_util_sampled_ratio", 1_060, 0.75, 1.0, bucket_ns=30)],
    ),
    "under MIG the sampled utilization is unknown, with the reason": story(
        sources=[WINDOW], samples=[sample(1_000, None, reason="mig"), sample(1_001, None, reason="mig")],
        expect=[seen("gpu_util_sampled_ratio", 1_000, None, 0.0, reason="mig")],
    ),
    "a node's CPU utilization is the mean over its cores": story(
        sources=[WINDOW],
        samples=[sample(1_000, 0.0, "core", entity_id="0"), sample(1_000, 0.5, "core", entity_id="1"),
                 sample(1_005, 1.0, "core", entity_id="0"), sample(1_005, 0.5, "core", entity_id="1")],
        expect=[seen("cpu_util_ratio", 1_000, 0.5, 1.0, entity_kind="node", entity_id="n", node_id="n")],
    ),
    "samples outside their window are in no bucket": story(
        sources=[WINDOW], samples=[sample(999, 1.0), sample(2_200, 1.0), sample(2_199, 0.5)],
        expect=[seen("gpu_util_sampled_ratio", 2_190, 0.5, 1.0)],
    ),
    "samples in the gap between two windows are in no bucket": story(
        sources=[WINDOW, WINDOW | {"source_id": "t", "window_start_ns": 5_000, "window_end_ns": 6_200}],
        samples=[sample(3_000, 1.0), sample(5_001, 0.5, source_id="t"), sample(4_000, 1.0, source_id="t")],
        expect=[seen("gpu_util_sampled_ratio", 5_000, 0.5, 1.0)],
    ),
    "other readings are no utilization": story(
        sources=[WINDOW], samples=[sample(1_000, 1.0, metric="power_watt"), sample(1_000, 1.0, "node")], expect=[]
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.utilization", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_utilization(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
