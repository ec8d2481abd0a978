"""One device under NVML: its readings, each call isolated so that one failure costs one metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pynvml  # type: ignore[import-untyped]

from tracelake.recorder.samplers import Reading, gpm

UNITS = {
    "gpu_util_ratio": "ratio",
    "memory_util_ratio": "ratio",
    "memory_used": "bytes",
    "memory_total": "bytes",
    "sm_clock": "hz",
    "memory_clock": "hz",
    "temperature": "celsius",
    "clock_event_reasons": "bits",
    "power": "watts",
    "energy": "joules",
    "pcie_tx": "bytes",
    "pcie_rx": "bytes",
    "nvlink_tx": "bytes",
    "nvlink_rx": "bytes",
    **dict.fromkeys(gpm.RATIOS.values(), "ratio"),
    **dict.fromkeys(gpm.RATES.values(), "bytes"),
}

_FOR_GOOD = {
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_DEPRECATED,
}
"""Answers that no later call changes, if the metric was never read; "invalid argument" may mean a stale handle."""
_REASONS: dict[int, str] = {
    value: name.removeprefix("NVML_ERROR_").lower()
    for name, value in vars(pynvml).items()
    if name.startswith("NVML_ERROR_")
}
LOST = "gpu_is_lost"
_ALL_LINKS = 0xFFFFFFFF


class Call(NamedTuple):
    """A function of NVML that gives one or more metrics."""

    metrics: tuple[str, ...]
    read: Callable[[Any], tuple[float, ...]]


class Value(NamedTuple):
    """A field of nvmlDeviceGetFieldValues, which reads any number of them in one call."""

    metrics: tuple[str, ...]
    field: tuple[int, int]
    scale: float


Source = Call | Value


def reason(code: int) -> str:
    """NVML's name of a return code, as in the column `reason`."""
    return _REASONS.get(code, f"nvml_error_{code}")


def _utilization(handle: Any) -> tuple[float, ...]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu / 100, rates.memory / 100


def _memory(handle: Any) -> tuple[float, ...]:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return float(memory.used), float(memory.total)


def _clock(kind: int) -> Callable[[Any], tuple[float, ...]]:
    return lambda handle: (pynvml.nvmlDeviceGetClockInfo(handle, kind) * 1e6,)


def _one(name: str, *more: int, scale: float = 1.0) -> Callable[[Any], tuple[float, ...]]:
    """By name: the functions of an older binding are not all there."""

    def read(handle: Any) -> tuple[float, ...]:
        function = getattr(pynvml, name, None)
        if function is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return (function(handle, *more) * scale,)

    return read


_SHARED: tuple[tuple[Source, ...], ...] = (
    (Call(("gpu_util_ratio", "memory_util_ratio"), _utilization),),
    (Call(("memory_used", "memory_total"), _memory),),
)
_WHOLE: tuple[tuple[Source, ...], ...] = (
    (Call(("sm_clock",), _clock(pynvml.NVML_CLOCK_SM)),),
    (Call(("memory_clock",), _clock(pynvml.NVML_CLOCK_MEM)),),
    (Call(("temperature",), _one("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU)),),
    (
        Call(("clock_event_reasons",), _one("nvmlDeviceGetCurrentClocksEventReasons")),
        Call(("clock_event_reasons",), _one("nvmlDeviceGetCurrentClocksThrottleReasons")),
    ),
    (Value(("power",), (186, 0), 1e-3), Call(("power",), _one("nvmlDeviceGetPowerUsage", scale=1e-3))),
    (Value(("energy",), (83, 0), 1e-3), Call(("energy",), _one("nvmlDeviceGetTotalEnergyConsumption", scale=1e-3))),
    (Value(("pcie_tx",), (197, 0), 1.0),),
    (Value(("pcie_rx",), (198, 0), 1.0),),
    # Up to Hopper in KiB, from Blackwell on in bytes.
    (Value(("nvlink_tx",), (138, _ALL_LINKS), 1024.0), Value(("nvlink_tx",), (202, _ALL_LINKS), 1.0)),
    (Value(("nvlink_rx",), (139, _ALL_LINKS), 1024.0), Value(("nvlink_rx",), (204, _ALL_LINKS), 1.0)),
)


class Device:
    """A GPU or a MIG instance. Where a metric has several sources, the next is used once one is not supported."""

    def __init__(self, uuid: str, handle: Any, counters: gpm.Gpm, is_instance: bool) -> None:
        self.uuid = uuid
        self.is_lost = False
        self.has_answered = self.has_failed = False
        self._handle = handle
        self._sources = [list(chain) for chain in _SHARED + (() if is_instance else _WHOLE)]
        self._gpm: gpm.Gpm | None = counters
        self._worked: set[str] = set()

    def reattach(self, handle: Any, counters: gpm.Gpm) -> None:
        """The same device under a driver that was started again; what it lacks stays left out."""
        self._handle = handle
        if self._gpm is not None:
            for metric in set(counters.metrics) - set(self._gpm.metrics):
                counters.drop(metric)
            self._gpm = counters

    def sample(self, at_ns: int) -> list[Reading]:
        """One reading per metric. Afterwards `has_answered` and `has_failed` tell whether NVML still talks."""
        self.has_answered = self.has_failed = False
        rows = [] if self.is_lost else self._values(at_ns) + self._calls(at_ns) + self._counters(at_ns)
        self._sources = [chain for chain in self._sources if chain]
        return self.absent(at_ns, LOST) if self.is_lost else rows

    def absent(self, at_ns: int, why: str) -> list[Reading]:
        """NULL for every metric that the device has: a failure must show in coverage, not as missing rows."""
        names = [name for chain in self._sources for name in chain[0].metrics]
        return self._nulls(at_ns, names + (self._gpm.metrics if self._gpm else []), why)

    def close(self) -> None:
        if self._gpm is not None:
            self._gpm.close()

    def _calls(self, at_ns: int) -> list[Reading]:
        rows = []
        for chain in self._sources:
            for source in list(chain):
                if self.is_lost or not isinstance(source, Call):
                    break
                try:
                    values = source.read(self._handle)
                except pynvml.NVMLError as error:
                    rows += self._failure(at_ns, chain, error.value)
                    if source in chain:
                        break
                else:
                    self.has_answered = True
                    rows += [self._reading(at_ns, *pair) for pair in zip(source.metrics, values, strict=True)]
                    break
        return rows

    def _values(self, at_ns: int) -> list[Reading]:
        firsts = [(chain, chain[0]) for chain in self._sources]
        wanted = [(chain, source) for chain, source in firsts if isinstance(source, Value)]
        if not wanted:
            return []
        try:
            fields = pynvml.nvmlDeviceGetFieldValues(self._handle, [source.field for _, source in wanted])
        except pynvml.NVMLError as error:
            return [row for chain, _ in wanted for row in self._failure(at_ns, chain, error.value)]
        rows = []
        for (chain, source), field in zip(wanted, fields, strict=True):
            # A driver calls the fields that came after it invalid.
            code = pynvml.NVML_ERROR_NOT_SUPPORTED if field.nvmlReturn == 2 else field.nvmlReturn
            if code == pynvml.NVML_SUCCESS:
                self.has_answered = True
                rows.append(self._reading(at_ns, source.metrics[0], _number(field) * source.scale))
            else:
                rows += self._failure(at_ns, chain, code)
        return rows

    def _counters(self, at_ns: int) -> list[Reading]:
        if self._gpm is None or self.is_lost:
            return []
        try:
            outcomes = self._gpm.sample(at_ns)
        except pynvml.NVMLError as error:
            outcomes = [gpm.Outcome(metric, None, error.value) for metric in self._gpm.metrics]
        rows = []
        for metric, value, code in outcomes:
            if self._is_final(code, (metric,)):
                self._gpm.drop(metric)
            if value is None:
                rows += self._nulls(at_ns, (metric,), reason(code))
            else:
                rows.append(self._reading(at_ns, metric, value))
        if not self._gpm.metrics:
            self._gpm.close()
            self._gpm = None
        return rows

    def _failure(self, at_ns: int, chain: list[Source], code: int) -> list[Reading]:
        """What an unsupported source leaves to the next one is no failure; without a next one it is said once."""
        metrics = chain[0].metrics
        if self._is_final(code, metrics):
            del chain[0]
            if chain:
                return []
        return self._nulls(at_ns, metrics, reason(code))

    def _is_final(self, code: int, metrics: tuple[str, ...]) -> bool:
        """Takes note of a return code. Final is a refusal of what was never read: a container that loses its right to
        the device, or a GPU switched to MIG, refuses what it gave before, and that must show in coverage."""
        is_final = code in _FOR_GOOD and self._worked.isdisjoint(metrics)
        if code == pynvml.NVML_ERROR_GPU_IS_LOST:
            self.is_lost = True
        elif code == pynvml.NVML_SUCCESS or is_final:
            self.has_answered = True
        else:
            self.has_failed = True
        return is_final

    def _reading(self, at_ns: int, metric: str, value: float) -> Reading:
        self._worked.add(metric)
        return Reading(at_ns, "device", self.uuid, metric, UNITS[metric], value)

    def _nulls(self, at_ns: int, metrics: Sequence[str], why: str) -> list[Reading]:
        return [Reading(at_ns, "device", self.uuid, name, UNITS[name], None, False, why) for name in metrics]


def _number(field: Any) -> float:
    members = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    kind = field.valueType
    return float(getattr(field.value, members[kind] if kind < len(members) else "ullVal"))
