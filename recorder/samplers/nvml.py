"""Readings of the GPUs by NVML, which goes on when one of them or the driver fails.

NVML's utilization is the share of its own last period (1/6 to 1 s) with any kernel running; GPM, from Hopper on, tells
what the units did. A failed reading is a row without a value, so that coverage can be computed from the rows.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pynvml  # type: ignore[import-untyped]

from tracelake.recorder.samplers import Reading, gpm
from tracelake.recorder.samplers.nvml_device import LOST, Device, reason

METRICS: tuple[tuple[str, str, str, str], ...] = (
    ("device", "gpu_util_ratio", "ratio", "Share of NVML's last period with a kernel running."),
    ("device", "memory_util_ratio", "ratio", "Share of NVML's last period with device memory read or written."),
    ("device", "memory_used", "bytes", "Device memory in use, by all processes."),
    ("device", "memory_total", "bytes", "Device memory there is."),
    ("device", "power", "watts", "Power draw; where the driver gives it that of the instant, else its average."),
    ("device", "energy", "joules", "Counter: energy since the driver was loaded."),
    ("device", "sm_clock", "hz", "Clock of the multiprocessors."),
    ("device", "memory_clock", "hz", "Clock of the device memory."),
    ("device", "temperature", "celsius", "Temperature of the GPU."),
    ("device", "clock_event_reasons", "bits", "Why clocks are not at their highest: bits of nvmlClocksEventReasons."),
    ("device", "pcie_tx", "bytes", "Counter: sent over PCIe; may wrap."),
    ("device", "pcie_rx", "bytes", "Counter: received over PCIe; may wrap."),
    ("device", "nvlink_tx", "bytes", "Counter: data sent over all NVLinks."),
    ("device", "nvlink_rx", "bytes", "Counter: data received over all NVLinks."),
    ("device", "graphics_active_ratio", "ratio", "GPM, since the last reading: some kernel or graphics running."),
    ("device", "sm_active_ratio", "ratio", "GPM, since the last reading: multiprocessors with a warp, on average."),
    ("device", "sm_occupancy_ratio", "ratio", "GPM, since the last reading: resident warps against the most possible."),
    ("device", "tensor_active_ratio", "ratio", "GPM, since the last reading: tensor cores busy."),
    ("device", "dram_active_ratio", "ratio", "GPM, since the last reading: device memory bandwidth in use."),
    ("device", "fp64_active_ratio", "ratio", "GPM, since the last reading: FP64 units busy, tensor cores aside."),
    ("device", "fp32_active_ratio", "ratio", "GPM, since the last reading: FP32 units busy, tensor cores aside."),
    ("device", "fp16_active_ratio", "ratio", "GPM, since the last reading: FP16 units busy, tensor cores aside."),
    ("device", "gpm_pcie_tx", "bytes", "GPM's rate times the time since the last reading: sent over PCIe."),
    ("device", "gpm_pcie_rx", "bytes", "GPM's rate times the time since the last reading: received over PCIe."),
    ("device", "gpm_nvlink_tx", "bytes", "GPM's rate times the time since the last reading: sent over NVLink."),
    ("device", "gpm_nvlink_rx", "bytes", "GPM's rate times the time since the last reading: received over NVLink."),
)

UNAVAILABLE = "nvml_unavailable"
FIRST_RETRY_NS = 1_000_000_000
LAST_RETRY_NS = 30_000_000_000
LOG_LINES = 16
"""All that one run may log: a driver that comes and goes must not fill the job's output."""

_CORES_PER_SM = {
    (6, 0): 64, (6, 1): 128, (7, 0): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128,
    (9, 0): 128, (10, 0): 128, (10, 3): 128, (12, 0): 128, (12, 1): 128,
}  # fmt: skip
_log = logging.getLogger(__name__)


class _Found(NamedTuple):
    """A device as NVML lists it, with the handle that is valid until NVML is started again."""

    facts: dict[str, Any]
    handle: Any
    take: Callable[[Any], object]


class Nvml:
    """Samples the devices named by `wanted` (UUIDs of GPUs or MIG instances; None: all that are visible).

    Never raises for what NVML answers. `state` is "ok" or says what is wrong.
    """

    def __init__(self, wanted: Sequence[str] | None, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.state = "ok"
        self._clock = clock
        self._lines_left = LOG_LINES
        self._retry_ns = FIRST_RETRY_NS
        self._retry_at_ns: int | None = None
        self._facts: list[dict[str, Any]] = []
        self._devices: list[Device] = []
        try:
            pynvml.nvmlInit()
            found = [each for each in self._enumerate() if wanted is None or each.facts["uuid"] in wanted]
        except pynvml.NVMLError as error:
            self._say(f"NVML: no devices: {reason(error.value)}: {error}")
            return
        for each in found:
            self._facts.append(each.facts)
            self._devices.append(Device(each.facts["uuid"], each.handle, gpm.Gpm(each.take), each.facts["mig"]))
        missing = sorted(set(wanted or ()) - {device.uuid for device in self._devices})
        if missing or not found:
            self._say(f"NVML: not among the visible devices: {', '.join(missing) or 'none at all'}")

    def describe(self) -> list[dict[str, Any]]:
        """The devices as found at the start: index (of a MIG instance: its GPU's), uuid, name, memory_bytes,
        sm_count, compute_capability, pci_bus_id, mig (whether it is a MIG instance). None where unknown."""
        return [dict(each) for each in self._facts]

    def sample(self) -> list[Reading]:
        """One reading per device and metric."""
        if self._retry_at_ns is not None and self._clock() >= self._retry_at_ns:
            self._restart(self._retry_at_ns)
        lost_before = [device.is_lost for device in self._devices]
        rows: list[Reading] = []
        for device in self._devices:
            rows += device.sample(self._clock())
        for device, was_lost in zip(self._devices, lost_before, strict=True):
            if device.is_lost and not was_lost:
                self._say(f"NVML: {LOST}: {device.uuid}; its readings are NULL from now on")
        answered = any(device.has_answered for device in self._devices)
        if answered or not any(device.has_failed for device in self._devices):
            if answered and self._retry_at_ns is not None:
                self._recovered()
            return rows
        return self._unavailable()

    def close(self) -> None:
        """Free what NVML holds for us; the sampler is not used afterwards."""
        for device in self._devices:
            device.close()
        self._devices = []
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def _unavailable(self) -> list[Reading]:
        at_ns = self._clock()
        if self._retry_at_ns is None:
            self._retry_ns = FIRST_RETRY_NS
            self._retry_at_ns = at_ns + FIRST_RETRY_NS
            self._say(f"NVML: {UNAVAILABLE}: every call fails; trying again")
        return [
            row for device in self._devices for row in device.absent(at_ns, LOST if device.is_lost else UNAVAILABLE)
        ]

    def _restart(self, due_ns: int) -> None:
        """Start NVML anew: handles do not outlive a reload of the driver. Doubles the wait in case it fails."""
        self._retry_ns = min(2 * self._retry_ns, LAST_RETRY_NS)
        self._retry_at_ns = due_ns + self._retry_ns
        for device in self._devices:
            device.close()
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
        try:
            pynvml.nvmlInit()
            found = {each.facts["uuid"]: each for each in self._enumerate()}
        except pynvml.NVMLError:
            return  # said when it began
        for device in self._devices:
            if device.uuid in found:
                device.reattach(found[device.uuid].handle, gpm.Gpm(found[device.uuid].take))

    def _recovered(self) -> None:
        self._retry_at_ns = None
        self._say("NVML: answers again")
        lost = [device.uuid for device in self._devices if device.is_lost]
        self.state = f"{LOST}: {', '.join(lost)}" if lost else "ok"

    def _say(self, text: str) -> None:
        self.state = text
        if self._lines_left > 0:
            self._lines_left -= 1
            _log.warning("%s%s", text, "" if self._lines_left else " (no more lines about NVML)")

    def _enumerate(self) -> Iterator[_Found]:
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                uuid = pynvml.nvmlDeviceGetUUID(handle)
            except pynvml.NVMLError as error:
                if not self._devices:  # else it is known already
                    self._say(f"NVML: device {index} left out: {reason(error.value)}")
                continue
            yield _Found(_facts(index, handle, uuid, handle), handle, _whole(handle))
            yield from _instances(index, handle)


def _instances(index: int, parent: Any) -> Iterator[_Found]:
    for place in range(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, parent) or 0):
        instance = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, place)
        uuid = instance and _ask(pynvml.nvmlDeviceGetUUID, instance)
        if uuid:
            number = _ask(pynvml.nvmlDeviceGetGpuInstanceId, instance)
            yield _Found(_facts(index, instance, uuid, parent), instance, _part(parent, number))


def _whole(handle: Any) -> Callable[[Any], object]:
    return lambda buffer: pynvml.nvmlGpmSampleGet(_supported(handle), buffer)


def _part(parent: Any, instance: int | None) -> Callable[[Any], object]:
    def take(buffer: Any) -> None:
        if instance is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        pynvml.nvmlGpmMigSampleGet(_supported(parent), instance, buffer)

    return take


def _supported(handle: Any) -> Any:
    """Asked each time: it costs a microsecond, and the answer changes when MIG is switched."""
    if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return handle


def _facts(index: int, handle: Any, uuid: str, parent: Any) -> dict[str, Any]:
    is_instance = handle is not parent
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    capability = _ask(pynvml.nvmlDeviceGetCudaComputeCapability, parent)
    pci = _ask(pynvml.nvmlDeviceGetPciInfo, parent)
    return {
        "index": index,
        "uuid": uuid,
        "name": _ask(pynvml.nvmlDeviceGetName, handle),
        "memory_bytes": memory and int(memory.total),
        "sm_count": _sm_count(handle, capability, is_instance),
        "compute_capability": capability and f"{capability[0]}.{capability[1]}",
        "pci_bus_id": pci and _text(pci.busId),
        "mig": is_instance,
    }


def _sm_count(handle: Any, capability: tuple[int, int] | None, is_instance: bool) -> int | None:
    """NVML tells it of an instance; of a whole GPU it tells the CUDA cores only."""
    if is_instance:
        attributes = _ask(pynvml.nvmlDeviceGetAttributes, handle)
        return attributes and int(attributes.multiprocessorCount)
    cores = _ask(pynvml.nvmlDeviceGetNumGpuCores, handle)
    per_sm = _CORES_PER_SM.get(capability) if capability else None
    return cores // per_sm if cores and per_sm else None


def _ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """What NVML answers; None where it refuses."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
