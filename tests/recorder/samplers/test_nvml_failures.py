"""When NVML, or one device, stops answering: readings go on, and coverage shows it."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from nvml_ticks import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SECOND_NS,
    TIMEOUT,
    UNKNOWN,
    Clock,
    only,
    run,
    valid,
)

from tracelake.recorder.samplers.nvml import LOG_LINES, Nvml


def test_case_34_one_device_lost_and_the_driver_away_for_a_while(fake: Any, caplog: pytest.LogCaptureFixture) -> None:
    fake.fake_devices(4)
    clock = Clock()
    sampler = Nvml(None, clock)
    # 40 samples of 175 ms are the 7 s after which the third retry (1 + 2 + 4 s) comes.
    rows = run(sampler, clock, 50, 175_000_000)
    fake.fake_rule(b"", 2, GPU_IS_LOST)
    rows += run(sampler, clock, 30, 175_000_000)
    fake.fake_all(UNKNOWN)
    rows += run(sampler, clock, 40, 175_000_000)
    fake.fake_all(0)
    rows += run(sampler, clock, 80, 175_000_000)

    util = only(rows, "gpu_util_ratio")
    assert len(util) == 800
    for uuid, expected in {"GPU-0": 160, "GPU-1": 160, "GPU-2": 50, "GPU-3": 160}.items():
        values = valid(only(util, "gpu_util_ratio", uuid))
        assert (len(values), sum(values) / len(values), len(values) / 200) == (expected, 0.5, expected / 200)
    assert Counter(row.reason for row in only(util, "gpu_util_ratio", "GPU-0")) == {None: 160, "nvml_unavailable": 40}
    assert Counter(row.reason for row in only(util, "gpu_util_ratio", "GPU-2")) == {None: 50, "gpu_is_lost": 150}
    assert len(caplog.records) == 3  # lost, unavailable, answers again
    assert fake.fake_inits() == 4
    assert sampler.state == "gpu_is_lost: GPU-2"


def test_retries_wait_twice_as_long_each_time_up_to_half_a_minute(fake: Any) -> None:
    clock = Clock()
    sampler = Nvml(None, clock)
    sampler.sample()
    fake.fake_all(DRIVER_NOT_LOADED)
    attempts, before = [], fake.fake_inits()
    for tenth in range(1_300):
        clock.now_ns += SECOND_NS // 10
        assert {row.reason for row in sampler.sample()} == {"nvml_unavailable"}
        if fake.fake_inits() > before:
            before = fake.fake_inits()
            attempts.append((tenth + 1) / 10 - 0.1)
    assert attempts == pytest.approx([1, 3, 7, 15, 31, 61, 91, 121], abs=0.11)


def test_a_short_failure_needs_no_restart(fake: Any) -> None:
    clock = Clock()
    sampler = Nvml(None, clock)
    run(sampler, clock, 2)
    fake.fake_all(TIMEOUT)
    assert valid(run(sampler, clock, 1)) == []
    fake.fake_all(0)
    rows = run(sampler, clock, 1)
    assert valid(only(rows, "gpu_util_ratio")) == [0.5]
    assert (fake.fake_inits(), sampler.state) == (1, "ok")


def test_a_driver_that_was_loaded_again_has_new_handles_and_buffers(fake: Any) -> None:
    fake.fake_devices(2)
    fake.fake_instances(1, 1)
    fake.fake_rule(b"nvmlDeviceGetTemperature", -1, NOT_SUPPORTED)
    fake.fake_rule(b"metric:13", -1, NOT_SUPPORTED)
    clock = Clock()
    sampler = Nvml(None, clock)
    before = run(sampler, clock, 2)[-1:] + run(sampler, clock, 1)
    fake.fake_all(DRIVER_NOT_LOADED)
    run(sampler, clock, 3)
    fake.fake_all(0)
    run(sampler, clock, 10)
    after = run(sampler, clock, 1)
    assert {row[2:] for row in after} == {row[2:] for row in before[1:]}
    assert all(row.is_valid for row in after)
    assert fake.fake_live_samples() == 6
    sampler.close()


def test_log_lines_are_bounded_when_the_driver_comes_and_goes(fake: Any, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    sampler = Nvml(None, clock)
    for _ in range(50):
        fake.fake_all(UNKNOWN)
        run(sampler, clock, 1)
        fake.fake_all(0)
        run(sampler, clock, 4)
    assert len(caplog.records) == LOG_LINES
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_what_was_given_before_and_is_refused_now_keeps_its_rows(fake: Any) -> None:
    clock = Clock()
    sampler = Nvml(None, clock)
    run(sampler, clock, 2)
    fake.fake_rule(b"nvmlDeviceGetUtilizationRates", -1, NOT_SUPPORTED)
    assert [row.reason for row in only(run(sampler, clock, 3), "gpu_util_ratio")] == ["not_supported"] * 3
    fake.fake_all(NO_PERMISSION)
    assert {row.reason for row in run(sampler, clock, 1)} == {"nvml_unavailable"}
    fake.fake_all(0)
    assert valid(only(run(sampler, clock, 1), "memory_used")) == [2.0**35]


def test_a_call_that_fails_now_and_then_costs_its_own_metric_only(fake: Any) -> None:
    clock = Clock()
    sampler = Nvml(None, clock)
    fake.fake_rule(b"nvmlDeviceGetTemperature", -1, TIMEOUT)
    rows = run(sampler, clock, 1)
    assert [row.reason for row in only(rows, "temperature")] == ["timeout"]
    assert valid(only(rows, "gpu_util_ratio")) == [0.5]
    fake.fake_rule(b"nvmlDeviceGetTemperature", -1, 0)
    assert valid(only(run(sampler, clock, 1), "temperature")) == [61.0]


def test_a_lost_device_at_the_start_leaves_the_others(fake: Any) -> None:
    fake.fake_devices(2)
    fake.fake_rule(b"", 0, GPU_IS_LOST)
    sampler = Nvml(["GPU-0", "GPU-1"])
    assert {row.entity_id for row in sampler.sample()} == {"GPU-1"}
    assert sampler.state == "NVML: not among the visible devices: GPU-0"


def test_no_driver(fake: Any, caplog: pytest.LogCaptureFixture) -> None:
    fake.fake_all(DRIVER_NOT_LOADED)
    sampler = Nvml(None)
    assert (sampler.describe(), sampler.sample(), sampler.sample()) == ([], [], [])
    assert "driver_not_loaded" in sampler.state
    assert len(caplog.records) == 1
    sampler.close()


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver")
def test_no_library() -> None:
    script = (
        "from tracelake.recorder.samplers.nvml import Nvml\n"
        "sampler = Nvml(None); print(sampler.describe(), sampler.sample(), sampler.state); sampler.close()"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.startswith("[] [] NVML: no devices: library_not_found")
    assert result.stderr.count("\n") == 1
