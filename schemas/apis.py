"""Host calls by what they do on a device: the one list that importers, recorder and pipelines share."""

from __future__ import annotations

import re
from functools import lru_cache

KERNEL_PRODUCING = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaLaunchCooperativeKernel",
        "cudaLaunchCooperativeKernelMultiDevice",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cuLaunchCooperativeKernel",
        "hipLaunchKernel",
        "hipModuleLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipExtLaunchKernel",
        "cudaGraphLaunch",
        "cuGraphLaunch",
        "hipGraphLaunch",
    }
)
"""Calls that must be followed by a kernel, so that their coverage tells a lossy capture."""

VERSION_SUFFIX = r"(?:_v\d+|_ptsz|_ptds|_spt)+$"
"""What a symbol carries behind the function's name; the same in Python's and Java's regular expressions."""
_VERSION = re.compile(VERSION_SUFFIX)
_OTHER_LAUNCH = re.compile(r"^(?:cuda|cu|hip)(?:Memcpy|Memset|LaunchHostFunc|LaunchCooperative)|^runFunction - ")
_SYNC = re.compile(r"^(?:cuda|cu|hip)(Device|Ctx|Stream|Event)Synchronize$")
_CAPTURE = re.compile(r"^(?:cuda|cu|hip)(?:Thread|Stream)(Begin|End)Capture")
BLOCKING_SYNCS = frozenset(
    {
        "device_synchronize",
        "context_synchronize",
        "stream_synchronize",
        "event_synchronize",
        "device_sync",
        "context_sync",
        "stream_sync",
        "event_sync",
    }
)
"""Kinds of waits that hold the host; markers between streams do not."""


@lru_cache(maxsize=4096)
def base_name(api_name: str) -> str:
    """The function without the version that its symbol carries (`cuMemcpyAsync_v2` is `cuMemcpyAsync`)."""
    return _VERSION.sub("", api_name)


@lru_cache(maxsize=4096)
def launch_or_sync(api_name: str) -> tuple[str, str] | None:
    """("launch", name), ("sync", kind), or None for calls that start and wait for nothing."""
    name = base_name(api_name)
    if name in KERNEL_PRODUCING or _OTHER_LAUNCH.search(name):
        return "launch", api_name
    if found := _SYNC.match(name):
        return "sync", {"Ctx": "context"}.get(found[1], found[1].lower()) + "_synchronize"
    if found := _CAPTURE.match(name):
        return "sync", f"stream_capture_{found[1].lower()}"
    return None
