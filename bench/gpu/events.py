"""Whether the events are right: beside Kineto's, on the clock, after a late start, a stop, and in CUDA graphs."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.gpu.work import STAND_IN, Captured, Rows, counted, run, work
from tracelake.schemas.apis import base_name, launch_or_sync

STEPS = 10
TINY = 200


def counts(folder: Path) -> dict[str, Any]:
    """The same ten steps by us and by Kineto: events by kind, kernels by name, and their total time."""
    job = work()
    captured = Captured(folder / "spool")
    rows = captured.during(lambda: run(job, STEPS))
    again = captured.during(lambda: run(job, STEPS))
    mine, names = _ours(rows), Counter(rows["kernel"]["name"].to_pylist())
    result: dict[str, Any] = {"steps": STEPS, "ours": mine, "ours_again": _ours(again), "closing": captured.close()}
    if os.environ.get(STAND_IN):
        return result
    theirs, their_names = _kineto(folder, lambda: run(job, STEPS))
    kinds = ("kernel", "memcpy", "memset", "launch")
    return {
        **result,
        "kineto": theirs,
        "equal": {kind: mine.get(kind) == theirs.get(kind) for kind in kinds},
        "kernel_names_equal": names == their_names,
        "kernel_names_only_ours": dict((names - their_names).most_common(5)),
        "kernel_names_only_kineto": dict((their_names - names).most_common(5)),
        "device_time_ratio": round(mine["kernel_ns"] / theirs["kernel_ns"], 4) if theirs["kernel_ns"] else None,
    }


def _ours(rows: Rows) -> dict[str, Any]:
    kinds = Counter(rows["memop"]["kind"].to_pylist()) if "memop" in rows else Counter[str]()
    return {
        "kernel": rows["kernel"].num_rows,
        "memcpy": kinds["memcpy"],
        "memset": kinds["memset"],
        "launch": rows["launch"].num_rows,
        "launch_by_name": dict(Counter(map(base_name, rows["launch"]["api_name"].to_pylist()))),
        "sync": rows["sync"].num_rows if "sync" in rows else 0,
        "kernel_ns": pc.sum(rows["kernel"]["duration_ns"]).as_py(),
        "kernels_without_a_launch": _unmatched(rows),
        "times_of_0": pc.sum(pc.equal(rows["kernel"]["start_ns"], 0)).as_py(),
    }


def _unmatched(rows: Rows) -> int:
    launches = pc.unique(rows["launch"]["correlation_id"])
    return int(pc.sum(pc.invert(pc.is_in(rows["kernel"]["correlation_id"], launches))).as_py())


def _kineto(folder: Path, action: Callable[[], object]) -> tuple[dict[str, Any], Counter[str]]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        action()
    path = folder / "kineto.json"
    profiler.export_chrome_trace(str(path))
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]
    by_kind = Counter(event.get("cat") for event in events)
    apis = [launch_or_sync(event["name"]) for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    return {
        "kernel": len(kernels),
        "memcpy": by_kind["gpu_memcpy"],
        "memset": by_kind["gpu_memset"],
        "launch": sum(found is not None and found[0] == "launch" for found in apis),
        "launch_by_name": dict(Counter(base_name(found[1]) for found in apis if found and found[0] == "launch")),
        "sync": sum(found is not None and found[0] == "sync" for found in apis),
        "kernel_ns": round(sum(event["dur"] for event in kernels) * 1000),
        "json_bytes": path.stat().st_size,
    }, Counter(event["name"] for event in kernels)


def clock(folder: Path) -> dict[str, Any]:
    """Small kernels one by one: does each call lie between two readings of our clock, and its kernel behind it."""
    job = work()
    captured = Captured(folder / "spool")
    readings: list[tuple[int, int, int]] = []

    def one_by_one() -> None:
        for _ in range(TINY):
            before = time.perf_counter_ns()
            job.tiny()
            after = time.perf_counter_ns()
            job.sync()
            readings.append((before, after, time.perf_counter_ns()))
            time.sleep(0.001)

    rows = captured.during(one_by_one)
    launches = rows["launch"].sort_by("start_ns").select(["start_ns", "duration_ns", "correlation_id"])
    pairs = launches.join(rows["kernel"].select(["start_ns", "duration_ns", "correlation_id"]), "correlation_id",
                          right_suffix="_kernel", join_type="inner").sort_by("start_ns")  # fmt: skip
    result: dict[str, Any] = {"launches": launches.num_rows, "pairs": pairs.num_rows, "readings": len(readings)}
    latency = pc.subtract(pairs["start_ns_kernel"], pairs["start_ns"])
    quantiles = [0.0, 0.05, 0.5, 0.95, 1.0]
    result["kernel_start_minus_call_start_ns"] = pc.quantile(latency, quantiles).to_pylist()
    result["negative_latencies"] = pc.sum(pc.less(latency, 0)).as_py()
    if pairs.num_rows != len(readings):
        return {**result, "closing": captured.close()}
    before, after, done = (pa.array(each, pa.int64()) for each in zip(*readings, strict=True))
    end = pc.add(pairs["start_ns"], pairs["duration_ns"])
    kernel_end = pc.add(pairs["start_ns_kernel"], pairs["duration_ns_kernel"])
    late = pc.subtract(kernel_end, done)
    return {
        **result,
        "calls_within_their_readings": _share(pc.and_(pc.greater_equal(pairs["start_ns"], before),
                                                      pc.less_equal(end, after))),
        "call_start_minus_reading_ns": pc.quantile(pc.subtract(pairs["start_ns"], before), quantiles).to_pylist(),
        "kernel_ends_before_the_wait_returns": _share(pc.less_equal(late, 0)),
        "latest_kernel_end_after_the_wait_ns": pc.max(late).as_py(),
        "closing": captured.close(),
    }  # fmt: skip


def _share(mask: Any) -> float:
    return round(float(pc.mean(mask.cast(pa.float64())).as_py()), 4)


def late_attach(folder: Path) -> dict[str, Any]:
    """CUDA is in use for a while, and only then we begin."""
    job = work()
    before = run(job, STEPS)
    captured = Captured(folder / "spool")
    began = time.perf_counter()
    captured.capture.start()
    start_seconds = time.perf_counter() - began
    first = run(job, 1)
    captured.capture.stop()
    captured.new()
    rows = captured.during(lambda: run(job, STEPS))
    return {
        "open_seconds": round(captured.open_seconds, 4),
        "start_seconds": round(start_seconds, 4),
        "step_before_ms": before["wall_ms"],
        "first_step_ms": first["wall_ms"],
        "rows_of_10_steps": counted(rows),
        "kernels_without_a_launch": _unmatched(rows),
        "closing": captured.close(),
    }


def stop_resume(folder: Path) -> dict[str, Any]:
    """Windows, with work between them that must not show; pause and resume as for another profiler."""
    captured = Captured(folder / "spool")
    job = work()
    windows, seconds = [], list[float]()
    for _ in range(3):
        windows.append(counted(captured.during(lambda: run(job, STEPS))))
        run(job, STEPS)
        job.sync()
        between = counted(captured.new())
        began = time.perf_counter()
        captured.capture.start()
        captured.capture.stop()
        seconds.append(time.perf_counter() - began)
        captured.new()
    captured.capture.start()
    run(job, STEPS)
    captured.capture.pause()
    paused = counted(captured.new())
    run(job, STEPS)
    resumed = captured.capture.resume()
    run(job, STEPS)
    captured.capture.stop()
    return {
        "windows": windows,
        "equal": all(window == windows[0] for window in windows),
        "rows_between": between,
        "start_and_stop_seconds": [round(each, 5) for each in seconds],
        "until_pause": paused,
        "resumed": resumed,
        "after_resume": counted(captured.new()),
        "closing": captured.close(),
    }


def graphs(folder: Path) -> dict[str, Any]:
    """A CUDA graph captured and replayed while we record: as one event, and node by node."""
    if os.environ.get(STAND_IN):
        return {"skipped": "needs PyTorch"}
    import torch

    result: dict[str, Any] = {}
    layers = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]).cuda()
    batch = torch.randn(32, 256, device="cuda")
    for _ in range(3):
        _forward(torch, layers, batch)
    for nodes in (False, True):
        captured = Captured(folder / f"spool_{nodes}", graph_nodes=nodes)
        captured.capture.start()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            _forward(torch, layers, batch)
        torch.cuda.synchronize()
        captured.capture.stop()
        made = counted(captured.new())
        began = time.perf_counter()
        rows = captured.during(lambda graph=graph: _replays(torch, graph))  # type: ignore[misc]
        result["nodes" if nodes else "whole"] = {
            "while_capturing": made,
            "rows_of_20_replays": counted(rows),
            "names": dict(Counter(rows["kernel"]["name"].to_pylist()).most_common(3)) if "kernel" in rows else {},
            "launches": dict(Counter(rows["launch"]["api_name"].to_pylist())) if "launch" in rows else {},
            "seconds": round(time.perf_counter() - began, 4),
            "closing": captured.close(),
        }
    return result


def _forward(torch: Any, layers: Any, batch: Any) -> None:
    with torch.no_grad():
        layers(batch)


def _replays(torch: Any, graph: Any) -> None:
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
