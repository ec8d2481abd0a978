"""Capture through CUPTI, the library that NVIDIA's own profilers use, by way of our shim."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import Any

from tracelake.recorder.capture import Counts, Unavailable
from tracelake.recorder.capture.calls import DRIVER, RUNTIME
from tracelake.recorder.capture.driver import devices
from tracelake.recorder.capture.libraries import driver, find_cupti, find_shim
from tracelake.recorder.capture.shim import DEAD, MISSING, Shim
from tracelake.recorder.log import once

KIND_DRIVER, KIND_RUNTIME, KIND_KERNEL, KIND_GRAPH = 4, 5, 10, 51
# 10 is CONCURRENT_KERNEL; 3 (KERNEL) would serialize the job's kernels.
KINDS = (KIND_KERNEL, 1, 2, 22, 38, 17)
GROUPS = {
    KIND_KERNEL: "kernel",
    KIND_GRAPH: "kernel",
    1: "memop",
    2: "memop",
    22: "memop",
    38: "sync",
    KIND_DRIVER: "api",
    KIND_RUNTIME: "api",
    17: "overhead",
    0: "other",
}
CALLS = {KIND_RUNTIME: RUNTIME, KIND_DRIVER: DRIVER}
BUSY = (39, 12)
"""MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, and MAX_LIMIT_REACHED in older versions: another profiler is there."""
REFUSALS = {
    15: "CUPTI could not start",
    27: "this GPU or driver does not support it",
    33: "this virtual GPU does not support it",
    35: "the driver wants more rights: the administrator sets NVreg_RestrictProfilingToAdminUsers=0",
    40: "the hypervisor forbids profiling of this virtual GPU",
    41: "confidential computing forbids profiling",
    43: "profiling of this MIG instance is not supported",
}
FLUSH_TIMEOUT_MS = 10_000
"""A driver that hangs must not hang the job."""


class Cupti:
    """One per process. Times are of CLOCK_MONOTONIC, the clock of time.perf_counter_ns."""

    name = "cupti"

    def __init__(self, shim: Shim, kinds: tuple[int, ...], cuda: ctypes.CDLL | None = None) -> None:
        self.version = shim.version()
        self._cuda = cuda
        self._shim = shim
        self._kinds = kinds
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._wanted = self._paused = self._closed = False

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        buffer_bytes: int = 1 << 18,
        buffer_count: int = 256,
        file_bytes: int = 64 << 20,
        period_ms: int = 200,
        reserve_bytes: int = 256 << 20,
        graph_nodes: bool = True,
        shim: Path | None = None,
        cupti: str | None = None,
    ) -> Cupti:
        """Ready to start, writing into a `folder` without an earlier spool while its disk has `reserve_bytes` free.

        Best called before the first CUDA work: CUPTI needs seconds for modules that are loaded already. At most
        buffer_count buffers wait in memory; then the oldest is dropped and counted. Without `graph_nodes` a CUDA graph
        is one event. A given `cupti` is taken without asking for a driver.
        Raises Unavailable: no_shim, no_driver, no_gpu, no_cupti, cupti_busy, cupti_refused.
        """
        cuda = None
        if cupti is None:
            # First: where there is no GPU, nothing else is missed.
            cuda = driver(initialize=True)
            cupti = find_cupti()
        native = Shim(shim or find_shim())
        if problem := native.load(cupti):
            raise Unavailable(
                "no_cupti", f"{cupti} cannot be used: {problem}; install the nvidia-cuda-cupti of your CUDA"
            )
        _check(native.subscribe(), "cuptiSubscribe")
        try:
            _check(native.setup(buffer_bytes, buffer_count), "registering buffers")
            # Only enabling says whether the GPU's events are allowed, and it is cheapest now.
            _check(native.kind(KIND_KERNEL, True), "recording kernels")
            native.kind(KIND_KERNEL, False)
            if error := native.open(folder, file_bytes, period_ms, reserve_bytes):
                text = f"{folder} cannot be written ({os.strerror(error)}); it must have room, and no earlier spool"
                raise Unavailable("cupti_refused", text)
        except Unavailable:
            native.unsubscribe()
            raise
        return cls(native, KINDS if graph_nodes else (*KINDS, KIND_GRAPH), cuda)

    def start(self) -> None:
        with self._lock:
            self._wanted = True
            if self._alive() and not self._paused:
                self._switch(True)

    def stop(self) -> None:
        with self._lock:
            was_wanted, self._wanted = self._wanted, False
            if self._alive() and was_wanted and not self._paused:
                self._switch(False)
                self._flush()

    def pause(self) -> None:
        """Leave CUPTI to another profiler; what was recorded until now is in the spool when this returns."""
        with self._lock:
            if not self._alive() or self._paused:
                return
            if self._wanted:
                self._switch(False)
                self._flush()
            self._shim.unsubscribe()
            self._paused = True

    def resume(self) -> bool:
        """Take CUPTI back: clock, buffers and kinds, which the other may have set. False while it still holds on."""
        with self._lock:
            if not self._alive() or not self._paused:
                return self._alive()
            if (code := self._shim.subscribe()) or (code := self._shim.register()):
                self._shim.unsubscribe()
                once("cupti resume", "GPU events stay off: another profiler still has CUPTI (code %d)", code)
                return False
            self._paused = False
            if self._wanted:
                self._switch(True)
            return True

    def set_writing(self, on: bool) -> None:
        """Off: events are counted as dropped instead of written, for a spool that is full."""
        if self._alive():
            self._shim.writing(on)

    def counts(self) -> Counts:
        produced: dict[str, int] = dict.fromkeys(GROUPS.values(), 0)
        dropped = dict(produced)
        for kind, (made, memory, space, _skipped) in enumerate(self._shim.counts()):
            if group := GROUPS.get(kind):
                produced[group] += made
                dropped[group] += memory + space
        return Counts(produced, dropped)

    def position(self) -> tuple[int, int]:
        return self._shim.position()

    def stats(self) -> dict[str, int]:
        """What recording has cost, and what became of buffers (names in shim.STATS)."""
        return self._shim.stats() | {"skipped_records": self._shim.counts()[0][3]}

    def apis(self) -> dict[str, str]:
        """Function names by "kind:number" (kind 5 runtime, 4 driver), as records refer to them."""
        found = {}
        for kind, calls in CALLS.items():
            for cbid in calls:
                if name := self._shim.api_name(kind, cbid):
                    # __cudaLaunchKernel is cudaLaunchKernel, called by the compiler instead of the programmer.
                    found[f"{kind}:{cbid}"] = name.lstrip("_")
        return found

    def devices(self) -> list[dict[str, Any]]:
        """What the visible GPUs are; see driver.devices."""
        return devices(self._cuda) if self._cuda and self._alive() else []

    def close(self) -> None:
        """Stop, write what is left, end the thread. The process can open another folder afterwards."""
        with self._lock:
            if not self._alive():
                return
            if self._wanted and not self._paused:
                self._switch(False)
            self._wanted, self._closed = False, True
            if code := self._shim.close(FLUSH_TIMEOUT_MS):
                once("cupti close", "GPU events: the recorder's thread did not end properly (code %d)", code)

    def _alive(self) -> bool:
        """A forked child has CUPTI's state but not its threads, and must leave it alone."""
        return not self._closed and os.getpid() == self._pid

    def _switch(self, on: bool) -> None:
        for kind, calls in CALLS.items():
            results = {self._shim.api(kind, cbid, on) for cbid in calls}
            # Before CUDA 12.6 functions cannot be chosen: all are recorded, and the shim keeps those of the list.
            if MISSING in results:
                self._shim.kind(kind, on)
        for kind in self._kinds:
            code = self._shim.kind(kind, on)
            if code and on:
                once(
                    f"cupti kind {kind}",
                    "CUPTI does not record %s events of kind %d (code %d)",
                    GROUPS[kind],
                    kind,
                    code,
                )

    def _flush(self) -> None:
        if code := self._shim.flush(True, FLUSH_TIMEOUT_MS):
            once("cupti flush", "GPU events of this window may be incomplete: CUPTI did not answer (code %d)", code)


def _check(code: int, what: str) -> None:
    if not code:
        return
    if code in BUSY:
        text = "another profiler (nsys, ncu, torch.profiler, TensorFlow's) has CUPTI; stop it, or record without it"
        raise Unavailable("cupti_busy", text)
    if code == DEAD:
        raise Unavailable("cupti_refused", "this process was forked from one that records; start it by spawn instead")
    why = REFUSALS.get(code, "see CUptiResult in NVIDIA's documentation")
    raise Unavailable("cupti_refused", f"{what} failed with CUPTI code {code}: {why}")
