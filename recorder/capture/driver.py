"""What the GPUs of this process are, asked of the CUDA driver: nothing heavier is loaded into a training process."""

from __future__ import annotations

import ctypes
from typing import Any

_SM_COUNT, _MAJOR, _MINOR = 16, 75, 76
_NAME_BYTES = 256


def devices(library: ctypes.CDLL) -> list[dict[str, Any]]:
    """index, uuid, name, memory_bytes, sm_count, compute_capability of each visible device; only after cuInit.

    What the driver does not say is None. `library` is that of `libraries.driver`.
    """
    count = ctypes.c_int()
    if library.cuDeviceGetCount(ctypes.byref(count)):
        return []
    return [_device(library, index) for index in range(count.value)]


def _device(library: ctypes.CDLL, index: int) -> dict[str, Any]:
    handle, memory, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(_NAME_BYTES)
    if library.cuDeviceGet(ctypes.byref(handle), index):
        handle.value = index
    named = library.cuDeviceGetName(name, _NAME_BYTES, handle) == 0
    sized = library.cuDeviceTotalMem_v2(ctypes.byref(memory), handle) == 0
    major, minor = _attribute(library, _MAJOR, handle), _attribute(library, _MINOR, handle)
    return {
        "index": index,
        "uuid": _uuid(library, handle),
        "name": name.value.decode(errors="replace") if named else None,
        "memory_bytes": memory.value if sized else None,
        "sm_count": _attribute(library, _SM_COUNT, handle),
        "compute_capability": None if major is None or minor is None else f"{major}.{minor}",
    }


def _attribute(library: ctypes.CDLL, number: int, handle: ctypes.c_int) -> int | None:
    value = ctypes.c_int()
    return None if library.cuDeviceGetAttribute(ctypes.byref(value), number, handle) else value.value


def _uuid(library: ctypes.CDLL, handle: ctypes.c_int) -> str | None:
    """As NVML and nvidia-smi write it. The second form of the call gives a MIG instance its own."""
    data = (ctypes.c_ubyte * 16)()
    for call in ("cuDeviceGetUuid_v2", "cuDeviceGetUuid"):
        function = getattr(library, call, None)
        if function is not None and function(data, handle) == 0:
            digits = bytes(data).hex()
            parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
            return "GPU-" + "-".join(parts)
    return None
