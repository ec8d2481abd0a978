"""NVML: what each call costs in the driver, and what GPM says of loads that are known."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from bench.gpu.work import STAND_IN
from bench.recorder_figures import median_interval
from tracelake.recorder.samplers.nvml import Nvml
from tracelake.recorder.samplers.nvml_device import Call, Device

TICK_SECONDS = 0.2
LOAD_SECONDS = 3.0


def nvml(folder: Path) -> dict[str, Any]:
    """Microseconds of a whole sample, and of each of the driver's functions that it calls."""
    import pynvml  # type: ignore[import-untyped]

    began = time.perf_counter()
    sampler = Nvml(None)
    result: dict[str, Any] = {
        "start_seconds": round(time.perf_counter() - began, 4),
        "state": sampler.state,
        "devices": sampler.describe(),
    }
    for _ in range(2):  # what is not supported is found out, and GPM has its first sample
        first = sampler.sample()
        time.sleep(TICK_SECONDS)
    whole = []
    for _ in range(20):
        time.sleep(0.12)  # else GPM would be left out
        began = time.perf_counter()
        rows = sampler.sample()
        whole.append((time.perf_counter() - began) * 1e6)
    result["sample_us"] = median_interval(whole, 1) if whole else None
    result["readings"] = {row.metric: row.value if row.is_valid else row.reason for row in rows or first}
    for device in sampler._devices[:1]:
        result["calls_us"] = _calls(device, pynvml)
    sampler.close()
    return result


def _calls(device: Device, pynvml: Any) -> dict[str, Any]:
    calls: dict[str, Callable[[], object]] = {}
    for source in (source for chain in device._sources for source in chain):
        name = "+".join(source.metrics)
        if isinstance(source, Call):
            calls[name] = partial(source.read, device._handle)
        else:
            calls[f"{name} (field {source.field[0]})"] = partial(
                pynvml.nvmlDeviceGetFieldValues, device._handle, [source.field]
            )
    result: dict[str, Any] = {}
    for name, call in calls.items():
        spent = []
        try:
            for _ in range(50):
                began = time.perf_counter()
                call()
                spent.append((time.perf_counter() - began) * 1e6)
        except pynvml.NVMLError as error:
            result[name] = str(error)
            continue
        result[name] = {**median_interval(spent, 1), "slowest": round(max(spent), 1)}
    return result


def gpm(folder: Path) -> dict[str, Any]:
    """Ratios under no load, matrix products of known speed, and copies of known speed."""
    if os.environ.get(STAND_IN):
        return {"skipped": "needs PyTorch"}
    import torch

    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    large = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(large)
    loads: dict[str, tuple[Callable[[], object] | None, str, float]] = {
        "idle": (None, "", 0.0),
        "matmul_bf16": (lambda: torch.matmul(a, b, out=out), "tflops", 2 * 8192**3 / 1e12),
        "device_copy": (lambda: target.copy_(large), "gb_per_second", 2 * large.numel() / 1e9),
    }
    sampler = Nvml(None)
    result: dict[str, Any] = {}
    for name, (action, unit, amount) in loads.items():
        result[name] = _under(sampler, torch, action, unit, amount)
    sampler.close()
    return result


def _under(sampler: Nvml, torch: Any, action: Callable[[], object] | None, unit: str, amount: float) -> dict[str, Any]:
    if action is not None:
        for _ in range(5):
            action()
    torch.cuda.synchronize()
    readings: dict[str, list[float]] = {}
    began = next_tick = time.perf_counter()
    done, ticks = 0, 0
    while time.perf_counter() < began + LOAD_SECONDS:
        if action is None:
            time.sleep(0.02)
        else:
            for _ in range(10):
                action()
            torch.cuda.synchronize()
            done += 10
        if time.perf_counter() >= next_tick:
            ticks += 1
            for row in sampler.sample():
                # The first spans what came before this load.
                if ticks > 2 and row.value is not None:
                    readings.setdefault(row.metric, []).append(row.value)
            next_tick = time.perf_counter() + TICK_SECONDS
    seconds = time.perf_counter() - began
    ratios = {metric: round(mean(values), 4) for metric, values in readings.items() if metric.endswith("_ratio")}
    rest: dict[str, Any] = {name: round(mean(readings[name]), 1) for name in ("power", "sm_clock") if name in readings}
    achieved = {unit: round(done * amount / seconds, 1)} if unit else {}
    return {**achieved, **ratios, **rest, "ticks": ticks}
