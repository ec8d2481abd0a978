"""GPM: what the units of a Hopper or newer device did between two of NVML's samples."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pynvml  # type: ignore[import-untyped]

INTERVAL_NS = 100_000_000
"""NVML wants more than 100 ms between the two samples: the device's own counters refresh no faster."""
MIB = 1 << 20

RATIOS = {
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: "graphics_active_ratio",
    pynvml.NVML_GPM_METRIC_SM_UTIL: "sm_active_ratio",
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: "sm_occupancy_ratio",
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: "tensor_active_ratio",
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: "dram_active_ratio",
    pynvml.NVML_GPM_METRIC_FP64_UTIL: "fp64_active_ratio",
    pynvml.NVML_GPM_METRIC_FP32_UTIL: "fp32_active_ratio",
    pynvml.NVML_GPM_METRIC_FP16_UTIL: "fp16_active_ratio",
}
RATES = {
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: "gpm_pcie_tx",
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: "gpm_pcie_rx",
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC: "gpm_nvlink_tx",
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: "gpm_nvlink_rx",
}
NAMES: dict[int, str] = {**RATIOS, **RATES}


class Outcome(NamedTuple):
    """What became of one metric: `code` is NVML's, 0 where `value` was read."""

    metric: str
    value: float | None
    code: int


class Gpm:
    """Two sample buffers of one device, filled in turn; each reading spans the time since the one before."""

    def __init__(self, take: Callable[[Any], object]) -> None:
        """`take` has NVML fill a buffer: of a whole device or of one instance of it."""
        self._take = take
        self._metrics = dict(NAMES)
        self._buffers: list[Any] = []
        self._taken_ns: int | None = None

    @property
    def metrics(self) -> list[str]:
        return list(self._metrics.values())

    def sample(self, at_ns: int) -> list[Outcome]:
        """Readings since the last call, none on the first or where that was too short ago.

        NVMLError where a sample could not be taken; the next call then begins anew.
        """
        if self._taken_ns is not None and at_ns - self._taken_ns <= INTERVAL_NS:
            return []
        before_ns, self._taken_ns = self._taken_ns, None
        while len(self._buffers) < 2:
            self._buffers.append(pynvml.nvmlGpmSampleAlloc())
        self._buffers.reverse()
        self._take(self._buffers[1])
        self._taken_ns = at_ns
        return [] if before_ns is None else self._compare((at_ns - before_ns) / 1e9)

    def drop(self, metric: str) -> None:
        """Leave out a metric that this device does not have."""
        self._metrics = {number: name for number, name in self._metrics.items() if name != metric}

    def close(self) -> None:
        """Give the buffers back; a later sample allocates new ones."""
        self._taken_ns = None
        while self._buffers:
            try:
                pynvml.nvmlGpmSampleFree(self._buffers.pop())
            except pynvml.NVMLError:
                continue  # the driver that owned it is gone

    def _compare(self, seconds: float) -> list[Outcome]:
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(self._metrics)
        request.sample1, request.sample2 = self._buffers
        for place, number in enumerate(self._metrics):
            request.metrics[place].metricId = number
        pynvml.nvmlGpmMetricsGet(request)
        return [
            _outcome(number, name, request.metrics[place], seconds)
            for place, (number, name) in enumerate(self._metrics.items())
        ]


def _outcome(number: int, name: str, metric: ctypes.Structure, seconds: float) -> Outcome:
    if metric.nvmlReturn != pynvml.NVML_SUCCESS:
        return Outcome(name, None, metric.nvmlReturn)
    if not math.isfinite(metric.value):
        return Outcome(name, None, pynvml.NVML_ERROR_NO_DATA)
    scale = 0.01 if number in RATIOS else MIB * seconds
    return Outcome(name, metric.value * scale, pynvml.NVML_SUCCESS)
