"""Work for a GPU whose events are counted: PyTorch's where there is a GPU, else launches of a stand-in."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tracelake.recorder.capture.cupti import Cupti
from tracelake.recorder.sidecar.convert import Native
from tracelake.recorder.sidecar.names import Names
from tracelake.recorder.spool import EventsReader

STAND_IN = "FAKE_CUPTI"
SECONDS = float(os.environ.get("GPU_CHECK_BLOCKS", "8"))
"""Length of each comparison of blocks."""
# Width, layers, batch and sequence of a transformer.
SIZES = {"launch_bound": (256, 6, 2, 64), "compute_bound": (1024, 8, 16, 512)}
Rows = dict[str, pa.Table]


class Work(Protocol):
    def step(self) -> None: ...

    def tiny(self) -> None:
        """One small kernel."""

    def sync(self) -> None: ...


class StandIn:
    """Launches of the stand-in libcupti; its events are regular."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ[STAND_IN], mode=ctypes.RTLD_GLOBAL)
        # It asks for the time as soon as it is used, also where no recorder has been.
        self._clock = ctypes.CFUNCTYPE(ctypes.c_uint64)(time.monotonic_ns)
        if not self._library.fake_registrations():
            self._library.cuptiActivityRegisterTimestampCallback(self._clock)

    def step(self) -> None:
        self._library.fake_launch_many(200)
        time.sleep(0.004)

    def tiny(self) -> None:
        self._library.fake_launch_many(1)

    def sync(self) -> None:
        pass


class Torch:
    """Training steps of a transformer in bf16."""

    def __init__(self, size: str) -> None:
        import torch

        width, layers, batch, length = SIZES[size]
        self._torch = torch
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.0)
        self._net = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda()
        self._optimizer = torch.optim.AdamW(self._net.parameters(), lr=1e-4)
        self._input = torch.randn(batch, length, width, device="cuda")
        self._host = torch.randn(1024).pin_memory()
        self._small = torch.ones(64, 64, device="cuda")
        self._large = torch.ones(1 << 22, device="cuda")

    def step(self) -> None:
        with self._torch.autocast("cuda", dtype=self._torch.bfloat16):
            loss = self._net(self._input).float().pow(2).mean()
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        # A copy and a memset (of the counters of a reduction by many blocks) in each step, so that there are some.
        self._host.cuda(non_blocking=True)
        self._large.sum()

    def tiny(self) -> None:
        self._small + 1

    def sync(self) -> None:
        self._torch.cuda.synchronize()


def work(size: str = "launch_bound", warm_steps: int = 10) -> Work:
    """Warmed up: libraries are loaded and memory is allocated."""
    made: Work = StandIn() if os.environ.get(STAND_IN) else Torch(size)
    run(made, warm_steps)
    return made


def run(work: Work, steps: int) -> dict[str, float]:
    """Milliseconds per step: on the clock, of this process's CPU, and of this thread's."""
    work.sync()
    wall, cpu, thread = time.perf_counter_ns(), time.process_time_ns(), time.thread_time_ns()
    for _ in range(steps):
        work.step()
    thread_ns = time.thread_time_ns() - thread
    work.sync()
    wall_ns, cpu_ns = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    return {"wall_ms": wall_ns / steps / 1e6, "cpu_ms": cpu_ns / steps / 1e6, "thread_ms": thread_ns / steps / 1e6}


def steps_of(work: Work, seconds: float = 0.3) -> int:
    """Steps that fill a block of about so many seconds."""
    return max(3, min(500, int(seconds * 1000 / run(work, 5)["wall_ms"])))


class Captured:
    """The recorder's own capture on a folder, and its records as the sidecar would store them."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        self.capture = Cupti.open(folder, reserve_bytes=0, **settings)
        self.open_seconds = time.perf_counter() - began
        self._native = Native(Names(folder))
        self._native.learn_apis(self.capture.apis())
        self._events = EventsReader(folder)

    def during(self, action: Callable[[], object]) -> Rows:
        """Rows of a window around an action."""
        self.capture.start()
        try:
            action()
        finally:
            self.capture.stop()
        return self.new()

    def new(self) -> Rows:
        """Rows since the last call."""
        parts: dict[str, list[pa.Table]] = {}
        for data in self._events.read(self.capture.position()):
            for kind, rows in self._native.tables(data).items():
                parts.setdefault(kind, []).append(rows)
        return {
            kind: pa.concat_tables(tables, promote_options="default").unify_dictionaries()
            for kind, tables in parts.items()
        }

    def close(self) -> dict[str, Any]:
        """Whether everything produced is accounted for, and what it cost."""
        self.capture.stop()
        counts, stats = self.capture.counts(), self.capture.stats()
        self.capture.close()
        made = sum(counts.produced.values())
        return {
            "produced": dict(counts.produced),
            "dropped": dict(counts.dropped),
            "drain_cpu_ns_per_record": round(stats["drain_cpu_ns"] / max(1, made), 1),
            "launching_thread_ns_per_record": round(stats["request_ns"] / max(1, made), 2),
            "stats": stats,
            "cupti_version": self.capture.version,
        }


def counted(rows: Rows) -> dict[str, int]:
    return {kind: table.num_rows for kind, table in sorted(rows.items())}
