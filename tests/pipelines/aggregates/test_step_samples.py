"""Readings by step and annotation: only those inside, only valid ones in the values, gaps in the coverage."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

SOURCES = [{"window_start_ns": 0, "window_end_ns": 1_000}]


def read(at: int, value: float | None, metric: str = "power", **more: Any) -> Row:
    row = {"at_ns": at, "monotonic_ns": at, "value": value, "is_valid": value is not None, "metric": metric}
    reason = None if value is not None else "read_timeout"
    return {**row, "entity_kind": "device", "entity_id": "d", "unit": "watts", "reason": reason, **more}


def step(occurrence: int, start: int, end: int, **more: Any) -> Row:
    row = {"step_name": "step", "step_occurrence": occurrence, "start_ns": start, "duration_ns": end - start}
    return {**row, "status": "complete", **more}


def host(number: int, name: str, start: int, end: int, **more: Any) -> Row:
    row = {"annotation_id": number, "name": name, "start_ns": start, "end_ns": end, "duration_ns": end - start}
    return {"depth": 0, **row, **more}


def line(occurrence: int, mean: float | None, count: int, **more: Any) -> Row:
    row = {"scope": "step", "name": "step", "step_occurrence": occurrence, "value_mean": mean, "sample_count": count}
    return {**row, **more}


STORIES: dict[str, Story] = {
    "a reading belongs to the step that holds its instant": story(
        sources=SOURCES, step_ledger=[step(0, 100, 200), step(1, 200, 300)],
        samples=[read(99, 1), read(100, 10), read(199, 20), read(200, 40), read(300, 7)],
        expect=[line(0, 15.0, 2, value_min=10.0, value_max=20.0, coverage_ratio=1.0, reason=None), line(1, 40.0, 1)],
    ),
    "a failed reading lowers the coverage and is in no value": story(
        sources=SOURCES, step_ledger=[step(0, 100, 200), step(1, 200, 300)],
        samples=[read(110, 10), read(120, None), read(130, 30), read(140, None), read(210, None)],
        expect=[line(0, 20.0, 4, coverage_ratio=0.5, reason=None),
                line(1, None, 1, coverage_ratio=0.0, value_max=None, reason="read_timeout")],
    ),
    "samples before the window do not count, nor do steps that the capture cut": story(
        sources=[{"window_start_ns": 100, "window_end_ns": 200}],
        step_ledger=[step(0, 50, 150), step(1, 150, 250, status="cut")],
        samples=[read(60, 1), read(120, 5), read(160, 9)], expect=[line(0, 5.0, 1)],
    ),
    "cores count for their node": story(
        sources=SOURCES, step_ledger=[step(0, 100, 200)],
        samples=[read(110, value, "cpu_util_ratio", entity_kind="core", entity_id=core, node_id="n", unit="ratio")
                 for core, value in (("0", 0.25), ("1", 0.75))],
        expect=[line(0, 0.5, 2, entity_kind="node", entity_id="n", unit="ratio")],
    ),
    "bits are shares of readings with heat and with the power cap": story(
        sources=SOURCES, step_ledger=[step(0, 100, 200)],
        samples=[read(110 + n, bits, "clock_event_reasons", unit="bits") for n, bits in enumerate((0, 4, 0x20, 0x44))],
        expect=[line(0, 0.5, 4, metric="power_capped_ratio", unit="ratio"), line(0, 0.5, 4, metric="throttled_ratio")],
    ),
    "an annotation's are those with it innermost on the thread of the steps": story(
        sources=SOURCES, step_ledger=[step(0, 100, 200)],
        annotations=[host(0, "step", 100, 200, is_step=True), host(1, "forward", 110, 150, parent_id=0, depth=1),
                     host(2, "attention", 120, 130, parent_id=1, depth=2),
                     host(3, "forward", 160, 170, parent_id=0, depth=1), host(4, "loader", 100, 200, thread_id=2)],
        samples=[read(105, 1), read(115, 2), read(125, 30), read(145, 4), read(165, 6)],
        expect=[{"scope": "annotation", "name": "attention", "step_occurrence": None, "value_mean": 30.0},
                {"scope": "annotation", "name": "forward", "step_occurrence": None, "value_mean": 4.0,
                 "sample_count": 3}, line(0, 8.6, 5)],
    ),
    "windows of two processes stay apart": story(
        sources=[*SOURCES, {"source_id": "t", "window_start_ns": 0, "window_end_ns": 1_000}],
        step_ledger=[step(0, 100, 200), step(0, 150, 250, source_id="t")],
        samples=[read(120, 1), read(170, 3), read(120, 5, source_id="t"), read(170, 7, source_id="t")],
        expect=[line(0, 2.0, 2, source_id="s"), line(0, 7.0, 1, source_id="t")],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.step_samples", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_step_samples(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
