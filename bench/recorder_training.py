"""A training script for `recorder_overhead`: plain blocks of steps, recorded ones, and ones under torch.profiler.

Run in a Python that has PyTorch: MODEL ROUNDS FOLDER. Prints one line of JSON. A recorder is loaded for its own blocks
only, so that a plain block has neither its threads nor its sidecar beside it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from tracelake.recorder import Profiler, annotate, process

BLOCK_SECONDS, PROFILED_SECONDS = 0.8, 0.35
"""torch.profiler needs many times longer to stop than it has recorded."""
Step = Callable[[int], None]


def cnn() -> tuple[nn.Module, torch.Tensor]:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10)), torch.randn(8, 3, 32, 32)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2), torch.randn(4, 32, 64)


def steps(model: nn.Module, batch: torch.Tensor) -> tuple[Step, Step]:
    """A plain training step, and the same with four annotations."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def plain(number: int) -> None:
        optimizer.zero_grad()
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()

    def annotated(number: int) -> None:
        with annotate(f"step_{number}"):
            with annotate("forward"):
                optimizer.zero_grad()
                loss = model(batch).pow(2).mean()
            with annotate("backward"):
                loss.backward()
            with annotate("optimizer"):
                optimizer.step()

    return plain, annotated


def block(step: Step, count: int) -> dict[str, float]:
    """Microseconds per step: on the clock, and of this thread's CPU."""
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    for number in range(count):
        step(number)
    cpu_us, wall_us = (time.thread_time_ns() - cpu) / 1000, (time.perf_counter_ns() - wall) / 1000
    return {"wall_us": wall_us / count, "main_cpu_us": cpu_us / count, "seconds": wall_us / 1e6, "steps": count}


def cpu_ns(process_id: int, thread_id: int | None = None) -> int:
    tasks = [str(thread_id)] if thread_id else [path.name for path in Path(f"/proc/{process_id}/task").iterdir()]
    files = (Path(f"/proc/{process_id}/task/{task}/schedstat") for task in tasks)
    return sum(int(file.read_text().split()[0]) for file in files)


def annotation_us(calls: int = 4_000) -> float:
    """One annotation as this process pays for it, less the loop."""
    began = time.thread_time_ns()
    for _ in range(calls):
        pass
    bare = time.thread_time_ns()
    for _ in range(calls):
        with annotate("forward"):
            pass
    return (time.thread_time_ns() - bare - (bare - began)) / 1000 / calls


def recorded(step: Step, count: int, folder: Path) -> dict[str, Any]:
    """A block under the recorder, whose sidecar has started: what the block cost beside the step itself."""
    profiler = Profiler.instance()
    began = time.perf_counter()
    profiler.configure(output=str(folder / "lake"), spool=str(folder / "spool"), job_id="bench", gpu=False,
                       sampling_interval_ms=500)  # fmt: skip
    profiler.start_profiling()
    start_seconds = time.perf_counter() - began
    recording = process.current()
    assert recording is not None and recording.sidecar._process is not None
    sidecar = recording.sidecar._process.pid
    deadline = time.monotonic() + 30
    while not list((recording.folder / "outbox").rglob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    (flush,) = [each.native_id for each in threading.enumerate() if each.name == "tracelake-flush"]
    before = cpu_ns(sidecar), cpu_ns(os.getpid(), flush)
    result: dict[str, Any] = block(step, count)
    after = cpu_ns(sidecar), cpu_ns(os.getpid(), flush)
    result["annotation_us"] = annotation_us()
    began = time.perf_counter()
    profiler.stop_profiling()
    result |= {"start_seconds": start_seconds, "stop_seconds": time.perf_counter() - began}
    process.unload()
    result["sidecar_start_us"] = before[0] / 1000
    result["sidecar_us_per_second"] = (after[0] - before[0]) / 1000 / result["seconds"]
    result["flush_us_per_step"] = (after[1] - before[1]) / 1000 / count
    return result


def profiled(step: Step, count: int) -> dict[str, Any]:
    profiler = profile(activities=[ProfilerActivity.CPU])
    began = time.perf_counter()
    profiler.__enter__()
    start_seconds = time.perf_counter() - began
    result: dict[str, Any] = block(step, count)
    began = time.perf_counter()
    profiler.__exit__(None, None, None)
    return {**result, "start_seconds": start_seconds, "stop_seconds": time.perf_counter() - began}


def main() -> None:
    """Rounds of plain, recorded, plain, profiled; every other round backwards."""
    name, rounds, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    plain, annotated = steps(*{"cnn": cnn, "transformer": transformer}[name]())
    block(plain, 50)
    step_us = block(plain, 50)["wall_us"]
    long, short = (max(20, int(seconds * 1e6 / step_us)) for seconds in (BLOCK_SECONDS, PROFILED_SECONDS))
    forms = {
        "before": lambda: block(plain, long),
        "recorded": lambda: recorded(annotated, long, folder),
        "after": lambda: block(plain, long),
        "profiled": lambda: profiled(plain, short),
    }
    done = []
    for round_ in range(rounds):
        order = list(forms) if round_ % 2 == 0 else list(reversed(forms))
        results = {}
        for form in order:
            gc.collect()
            results[form] = forms[form]()
        done.append(results)
    print(json.dumps({"torch": torch.__version__, "python": sys.version.split()[0], "rounds": done}))


main()
