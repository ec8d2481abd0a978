"""What NVML tells of devices, by the real binding over a stand-in library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from nvml_ticks import NO_PERMISSION, NOT_SUPPORTED, Clock, only, run, valid

from tracelake.recorder.samplers.nvml import METRICS, Nvml


def test_every_metric_of_a_device(fake: Any) -> None:
    clock = Clock()
    sampler = Nvml(None, clock)
    rows = run(sampler, clock, 2)[-26:]
    assert {row.metric: row.value for row in rows} == {
        "gpu_util_ratio": 0.5,
        "memory_util_ratio": 0.25,
        "memory_used": 2.0**35,
        "memory_total": 2.0**37,
        "power": pytest.approx(412.345),
        "energy": 83.0,
        "sm_clock": 1.98e9,
        "memory_clock": 2.619e9,
        "temperature": 61.0,
        "clock_event_reasons": 4.0,
        "pcie_tx": 197_000.0,
        "pcie_rx": 198_000.0,
        "nvlink_tx": 138_000.0 * 1024,
        "nvlink_rx": 139_000.0 * 1024,
        "graphics_active_ratio": 0.01,
        "sm_active_ratio": 0.02,
        "sm_occupancy_ratio": 0.03,
        "tensor_active_ratio": 0.05,
        "dram_active_ratio": 0.1,
        "fp64_active_ratio": 0.11,
        "fp32_active_ratio": 0.12,
        "fp16_active_ratio": 0.13,
        "gpm_pcie_tx": 20 * 2**20 * 0.5,
        "gpm_pcie_rx": 21 * 2**20 * 0.5,
        "gpm_nvlink_rx": 60 * 2**20 * 0.5,
        "gpm_nvlink_tx": 61 * 2**20 * 0.5,
    }
    assert {(row.entity_kind, row.metric, row.unit) for row in rows} == {row[:3] for row in METRICS}
    assert all(row.is_valid and row.entity_id == "GPU-0" for row in rows)
    sampler.close()


def test_describes_devices(fake: Any) -> None:
    fake.fake_devices(2)
    assert Nvml(None).describe()[1] == {
        "index": 1,
        "uuid": "GPU-1",
        "name": "Stand-in",
        "memory_bytes": 2**37,
        "sm_count": 132,
        "compute_capability": "9.0",
        "pci_bus_id": "00000000:01:00.0",
        "mig": False,
    }


def test_what_is_not_supported_is_said_once_and_not_asked_again(fake: Any) -> None:
    fake.fake_rule(b"nvmlDeviceGetTemperature", -1, NOT_SUPPORTED)
    fake.fake_rule(b"nvmlDeviceGetClockInfo", -1, NO_PERMISSION)
    fake.fake_rule(b"field:197", -1, 2)
    fake.fake_rule(b"metric:13", -1, NOT_SUPPORTED)
    clock = Clock()
    rows = run(Nvml(None, clock), clock, 5)
    said = [(row.metric, row.reason) for row in rows if not row.is_valid]
    assert sorted(said) == [
        ("fp16_active_ratio", "not_supported"),
        ("memory_clock", "no_permission"),
        ("pcie_tx", "not_supported"),
        ("sm_clock", "no_permission"),
        ("temperature", "not_supported"),
    ]
    assert len(valid(only(rows, "gpu_util_ratio"))) == 5


def test_other_sources_step_in_for_unsupported_ones(fake: Any) -> None:
    for what in (b"field:186", b"field:83", b"field:138", b"nvmlDeviceGetCurrentClocksEventReasons"):
        fake.fake_rule(what, -1, NOT_SUPPORTED)
    clock = Clock()
    rows = run(Nvml(None, clock), clock, 2)
    assert not [row for row in rows if not row.is_valid]
    last = {row.metric: row.value for row in rows}
    assert (last["power"], last["energy"], last["nvlink_tx"], last["clock_event_reasons"]) == (
        300.0,
        5.0,
        202_000.0,
        4.0,
    )


def test_one_device_by_uuid(fake: Any) -> None:
    fake.fake_devices(8)
    clock = Clock()
    sampler = Nvml(["GPU-5"], clock)
    assert [each["index"] for each in sampler.describe()] == [5]
    assert {row.entity_id for row in run(sampler, clock, 2)} == {"GPU-5"}


def test_a_device_that_is_not_there_is_named(fake: Any) -> None:
    sampler = Nvml(["GPU-7"])
    assert (sampler.describe(), sampler.sample()) == ([], [])
    assert sampler.state == "NVML: not among the visible devices: GPU-7"


def test_mig_instances_are_devices_of_their_own(fake: Any) -> None:
    fake.fake_instances(0, 2)
    clock = Clock()
    sampler = Nvml(None, clock)
    facts = sampler.describe()
    assert [(each["uuid"], each["mig"], each["memory_bytes"], each["sm_count"]) for each in facts] == [
        ("GPU-0", False, 2**37, 132),
        ("MIG-0-0", True, 2**34, 16),
        ("MIG-0-1", True, 2**34, 16),
    ]
    rows = run(sampler, clock, 3)
    for uuid in ("GPU-0", "MIG-0-0"):
        assert [row.reason for row in only(rows, "gpu_util_ratio", uuid)] == ["not_supported"]
    assert valid(only(rows, "memory_used", "MIG-0-1")) == [2.0**32] * 3
    assert valid(only(rows, "tensor_active_ratio", "MIG-0-1")) == [0.05] * 2
    assert not only(rows, "temperature", "MIG-0-1")


def test_gpm_needs_more_than_a_tenth_of_a_second_between_samples(fake: Any) -> None:
    clock = Clock()
    sampler = Nvml(None, clock)
    rows = run(sampler, clock, 7, 50_000_000)  # readings at 0, 50, 100, ... 300 ms; compared: 0-150, 150-300
    assert valid(only(rows, "sm_active_ratio")) == [0.02] * 2
    assert valid(only(rows, "gpm_pcie_tx")) == pytest.approx([20 * 2**20 * 0.15] * 2)


def test_gpm_buffers_are_given_back(fake: Any) -> None:
    fake.fake_devices(3)
    clock = Clock()
    sampler = Nvml(None, clock)
    run(sampler, clock, 4)
    assert fake.fake_live_samples() == 6
    sampler.close()
    assert fake.fake_live_samples() == 0


def test_no_gpm_before_hopper(fake: Any) -> None:
    fake.fake_gpm(0)
    clock = Clock()
    rows = run(Nvml(None, clock), clock, 3)
    assert [row.reason for row in only(rows, "sm_active_ratio")] == ["not_supported"]
    assert fake.fake_live_samples() == 0


def test_the_library_is_found_by_its_name(library: Path) -> None:
    script = (
        "from tracelake.recorder.samplers.nvml import Nvml\n"
        "sampler = Nvml(None); print(len(sampler.sample()), sampler.state); sampler.close()"
    )
    env = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, env=env
    )
    assert result.stdout == "14 ok\n"
