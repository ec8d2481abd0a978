"""What recording costs: processes without a recorder, with ours, and with torch.profiler; blocks in turns."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.gpu.work import SECONDS, SIZES, STAND_IN, Work, run, steps_of, work
from bench.recorder_figures import cpu_ns, median_interval

KEYS = ("wall_ms", "cpu_ms", "thread_ms")
Block = dict[str, float]


def _sizes() -> list[str]:
    return ["launch_bound"] if os.environ.get(STAND_IN) else list(SIZES)


def _median(blocks: list[Block]) -> dict[str, float]:
    return {key: round(median(block[key] for block in blocks), 4) for key in KEYS}


def _added(pairs: list[tuple[Block, Block]]) -> dict[str, Any]:
    """Share that the second of each pair takes beyond the first."""
    return {key: median_interval([after[key] / before[key] - 1 for before, after in pairs]) for key in KEYS}


def _device_memory() -> int | None:
    """Bytes of the device that are taken, by whatever takes them."""
    if os.environ.get(STAND_IN):
        return None
    import torch

    free, total = torch.cuda.mem_get_info()
    return int(total - free)


def pure(folder: Path) -> dict[str, Any]:
    """No recorder, and CUPTI never touched: what everything else is compared with."""
    result: dict[str, Any] = {}
    for size in _sizes():
        job = work(size)
        count, blocks = steps_of(job), list[Block]()
        until = time.monotonic() + SECONDS / 2
        while time.monotonic() < until:
            blocks.append(run(job, count))
        result[size] = {**_median(blocks), "blocks": len(blocks)}
    return {**result, "device_memory_bytes": _device_memory()}


def ours(folder: Path) -> dict[str, Any]:
    """Our recorder, loaded before CUDA: blocks with a window open and with none."""
    from tracelake.recorder import Profiler, process

    profiler = Profiler.instance()
    began = time.perf_counter()
    profiler.configure(output=str(folder / "lake"), spool=str(folder / "spool"), job_id="check", exit_wait_seconds=60)
    profiler.start_profiling()
    result: dict[str, Any] = {"first_start_seconds": round(time.perf_counter() - began, 4)}
    recording = process.current()
    assert recording is not None
    sidecar = recording.sidecar._process.pid if recording.sidecar._process else None
    for size in _sizes():
        result[size] = _turns(profiler, recording, work(size))
    profiler.stop_profiling()
    result["device_memory_bytes"] = _device_memory()
    if recording.capture is not None:
        counts, stats = recording.capture.counts(), recording.capture.stats()  # type: ignore[attr-defined]
        made = sum(counts.produced.values())
        result |= {"produced": dict(counts.produced), "dropped": dict(counts.dropped),
                   "drain_cpu_ns_per_record": round(stats["drain_cpu_ns"] / max(1, made), 1)}  # fmt: skip
    result["capture"] = recording.capture.name if recording.capture else str(recording.capture_reason)
    result["sidecar_cpu_seconds"] = round(cpu_ns(sidecar) / 1e9, 3) if sidecar else None
    process.unload()
    return result


def _turns(profiler: Any, recording: Any, job: Work) -> dict[str, Any]:
    count, pairs = steps_of(job), list[tuple[Block, Block]]()
    starts, stops = list[float](), list[float]()
    profiler.stop_profiling()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        off = run(job, count)
        began = time.perf_counter()
        profiler.start_profiling()
        starts.append(time.perf_counter() - began)
        on = run(job, count)
        began = time.perf_counter()
        profiler.stop_profiling()
        stops.append(time.perf_counter() - began)
        pairs.append((off, on))
    profiler.start_profiling()
    return {
        "off": _median([off for off, _ in pairs]),
        "on": _median([on for _, on in pairs]),
        "added_by_recording": _added(pairs),
        "start_seconds": median_interval(starts, 5),
        "stop_seconds": median_interval(stops, 5),
        "steps_per_block": count,
    }


def torch_profiler(folder: Path) -> dict[str, Any]:
    """PyTorch's own profiler, as users run it: with host operators, and with device events only."""
    if os.environ.get(STAND_IN):
        return {"skipped": "needs PyTorch"}
    from torch.profiler import ProfilerActivity, profile

    forms = {"cpu_and_cuda": [ProfilerActivity.CPU, ProfilerActivity.CUDA], "cuda_only": [ProfilerActivity.CUDA]}
    result: dict[str, Any] = {}
    for size in _sizes():
        job = work(size)
        count = steps_of(job)
        with profile(activities=forms["cuda_only"]):  # what its first use loads is not its running cost
            run(job, 3)
        pairs: dict[str, list[tuple[Block, Block]]] = {form: [] for form in forms}
        stops: dict[str, list[float]] = {form: [] for form in forms}
        until = time.monotonic() + 1.5 * SECONDS
        while time.monotonic() < until:
            for form, activities in forms.items():
                off = run(job, count)
                profiler = profile(activities=activities)
                profiler.__enter__()
                on = run(job, count)
                began = time.perf_counter()
                profiler.__exit__(None, None, None)
                stops[form].append(time.perf_counter() - began)
                pairs[form].append((off, on))
        result[size] = {
            form: {
                "off": _median([off for off, _ in found]),
                "on": _median([on for _, on in found]),
                "added": _added(found),
                "stop_seconds": median_interval(stops[form], 3),
            }
            for form, found in pairs.items()
        }
    return {**result, "device_memory_bytes": _device_memory()}


def compared(sections: dict[str, Any]) -> dict[str, Any]:
    """What the processes say together: residual, memory, and ours against torch.profiler's."""
    first, second = sections.get("pure", {}), sections.get("pure_again", {})
    mine, theirs = sections.get("ours", {}), sections.get("torch_profiler", {})
    result: dict[str, Any] = {}
    for size in SIZES:
        if not all(size in each for each in (first, second, mine)):
            continue
        base = (first[size]["wall_ms"] + second[size]["wall_ms"]) / 2
        entry: dict[str, Any] = {
            "pure_ms": base,
            "noise_between_pure_processes": round(abs(first[size]["wall_ms"] / second[size]["wall_ms"] - 1), 4),
            "residual_when_stopped": round(mine[size]["off"]["wall_ms"] / base - 1, 4),
            "ours_added_to_pure": round(mine[size]["on"]["wall_ms"] / base - 1, 4),
        }
        for form, found in theirs.get(size, {}).items():
            entry[f"torch_profiler_{form}_added_to_pure"] = round(found["on"]["wall_ms"] / base - 1, 4)
            added = found["on"]["wall_ms"] - found["off"]["wall_ms"]
            own = mine[size]["on"]["wall_ms"] - mine[size]["off"]["wall_ms"]
            entry[f"ours_of_torch_profiler_{form}"] = round(own / added, 4) if added > 0 else None
        result[size] = entry
    if first.get("device_memory_bytes") and mine.get("device_memory_bytes"):
        result["device_memory_taken_bytes"] = mine["device_memory_bytes"] - first["device_memory_bytes"]
    return result
