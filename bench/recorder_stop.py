"""What starting and stopping a window cost the thread that asks, with a million records in the tool's buffers.

The GPU is a stand-in, and nothing is drained until the stop, so that all of it waits. Each run is a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.recorder_figures import environment, median_interval, settings, stand_in_gpu

RUNS = 7
PENDING = (0, 1_000_000)
LIMIT_SECONDS = 2.0
_CODE = """
import ctypes, json, os, sys, time
cupti = ctypes.CDLL(os.environ["FAKE_CUPTI"], mode=ctypes.RTLD_GLOBAL)
pending, clock = int(sys.argv[1]), time.perf_counter
marks = [clock()]
def mark():
    marks.append(clock())
from tracelake.recorder import Profiler, process
mark()
profiler = Profiler.instance()
profiler.configure()
mark()
profiler.start_profiling()
mark()
cupti.fake_launch_many(pending // 2)
mark()
cpu = time.thread_time()
profiler.stop_profiling()
mark()
cpu = time.thread_time() - cpu
recording = process.current()
counts = recording.capture.counts()
profiler.start_profiling()
mark()
profiler.stop_profiling()
mark()
names = ("import", "configure", "start", "launches", "stop", "start_again", "stop_again")
seconds = {name: after - before for name, before, after in zip(names, marks, marks[1:])}
print(json.dumps({**seconds, "stop_cpu": cpu, "produced": sum(counts.produced.values()),
                  "dropped": sum(counts.dropped.values()), "open": recording._window is not None}))
"""


def measure() -> dict[str, Any]:
    """Seconds that the caller is blocked, by what it asks for."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        gpu = stand_in_gpu(Path(folder))
        for pending in PENDING:
            runs = [_run(gpu, pending) for _ in range(RUNS)]
            complete = all(run["produced"] == pending and not run["dropped"] and not run["open"] for run in runs)
            keys = ("import", "configure", "start", "stop", "stop_cpu", "start_again", "stop_again")
            results[f"{pending} records pending"] = {
                "seconds": {key: median_interval([run[key] for run in runs]) for key in keys},
                "slowest_stop_seconds": round(max(run["stop"] for run in runs), 4),
                "all_in_the_spool_when_it_returns": complete,
            }
    slowest = max(result["slowest_stop_seconds"] for result in results.values())
    return {
        "how": f"{RUNS} processes each; stop_cpu is the asking thread's own CPU, the rest of its wait is for the thread"
        " that drains",
        **results,
        "limit_seconds": LIMIT_SECONDS,
        "holds": slowest <= LIMIT_SECONDS,
    }


def _run(gpu: dict[str, str], pending: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        # A budget that holds all that is pending, and no drain before the end.
        chosen = settings(Path(folder), memory_budget_bytes=1 << 30, flush_ms=60_000, exit_wait_seconds=60)
        done = subprocess.run(
            [sys.executable, "-c", _CODE, str(pending)],
            capture_output=True,
            text=True,
            env=environment(**gpu, **chosen),
            check=False,
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
