"""Power, clocks, throttling and memory of a device, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

SOURCES = [{"window_start_ns": 0, "window_end_ns": 10_000}]


def read(metric: str, values: Sequence[float | None], **more: Any) -> list[Row]:
    return [
        {
            "at_ns": 10 * number, "monotonic_ns": number, "metric": metric, "value": value,
            "is_valid": value is not None, "entity_kind": "device", "entity_id": "d", "unit": "", **more,
        }
        for number, value in enumerate(values)
    ]  # fmt: skip


def memory(values: Sequence[float | None], total: int | None = 1_000, **expect: Any) -> Story:
    devices = [{"device_id": "d", "memory_bytes": total}]
    return story(sources=SOURCES, devices=devices, samples=read("memory_used", values), expect=[expect])


STORIES: dict[str, Story] = {
    "power and clocks are those of valid readings": story(
        sources=SOURCES,
        samples=[*read("power", [100, None, 300, 200]), *read("sm_clock", [1_000, 1_000, 949, 951, 1_100])],
        expect=[{"power_mean_watts": 200.0, "power_max_watts": 300.0, "clock_median_hz": 1_000.0,
                 "clock_max_hz": 1_100.0, "low_clock_ratio": 0.2, "sample_count": 9, "coverage_ratio": 8 / 9,
                 "throttled_ratio": None, "is_memory_leak": None, "memory_reason": "not_sampled"}],
    ),
    "heat and the power cap are two things": story(
        sources=SOURCES, samples=read("clock_event_reasons", [0, 1, 4, 0x20, 0x40, 0x24, 8, None]),
        expect=[{"throttled_ratio": 4 / 7, "power_capped_ratio": 2 / 7, "low_clock_ratio": None}],
    ),
    "samples outside the windows do not count": story(
        sources=[{"window_start_ns": 5, "window_end_ns": 25}], samples=read("power", [1_000, 10, 20, 1_000]),
        expect=[{"power_mean_watts": 15.0, "sample_count": 2}],
    ),
    "memory that grows evenly leaks": memory(
        [700 + 10 * n for n in range(12)], memory_growth_bytes=120, memory_growth_ratio=0.12, memory_rising_ratio=1.0,
        is_memory_leak=True, memory_max_bytes=810, memory_total_bytes=1_000, memory_reason=None,
    ),
    "what each iteration allocates and frees is no growth": memory(
        [700 + 200 * (n % 3 == 1) for n in range(36)], memory_growth_bytes=0, memory_rising_ratio=0.0,
        is_memory_leak=False, memory_max_bytes=900,
    ),
    "one step up is no leak": memory(
        [*[500] * 4, *[900] * 8], memory_growth_bytes=0, memory_rising_ratio=32 / 66, is_memory_leak=False,
    ),
    "memory that shrinks is no leak": memory(
        [900 - 10 * n for n in range(12)], memory_growth_bytes=-120, memory_rising_ratio=0.0, is_memory_leak=False,
    ),
    "growth below the threshold is none": memory(
        [700 + 2 * n for n in range(12)], memory_growth_bytes=24, memory_rising_ratio=1.0, is_memory_leak=False,
    ),
    "too few readings are not judged": memory(
        [700, None, 710, 720], memory_growth_bytes=None, memory_growth_ratio=None, memory_rising_ratio=None,
        is_memory_leak=None, memory_reason="too_few_readings", memory_max_bytes=720,
    ),
    "growth of an unknown part is not judged": memory(
        [700 + 10 * n for n in range(12)], total=None, memory_growth_bytes=120, memory_growth_ratio=None,
        is_memory_leak=None, memory_reason="memory_size_unknown",
    ),
    "the windows of an attempt are one": story(
        sources=[{"window_start_ns": 0, "window_end_ns": 55},
                 {"source_id": "t", "window_start_ns": 55, "window_end_ns": 900}],
        devices=[{"device_id": "d", "memory_bytes": 1_000}],
        samples=[{**row, "source_id": "s" if row["at_ns"] < 55 else "t"}
                 for row in read("memory_used", [700 + 10 * n for n in range(12)])],
        expect=[{"memory_growth_bytes": 120, "is_memory_leak": True}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.device_samples", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_device_samples(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
