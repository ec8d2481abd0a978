"""A minute at 50,000 events a second: memory and CPU of both processes, what arrives, and how soon it can be seen.

The GPU is a stand-in. What its `launches` cost the main thread is not the recorder's, and is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.recorder_figures import (
    cpu_ns,
    environment,
    median_interval,
    resident_bytes,
    settings,
    stand_in_gpu,
    thread_ids,
)
from tracelake.schemas.manifest import manifests, raw_root

SECONDS, EVENTS_PER_SECOND = 60, 50_000
DRAIN, FLUSH = "tracelake-drain", "tracelake-flush"
_CODE = """
import ctypes, json, os, sys, threading, time
cupti = ctypes.CDLL(os.environ["FAKE_CUPTI"], mode=ctypes.RTLD_GLOBAL)
import tracelake
from tracelake.recorder import process
seconds, rate = map(int, sys.argv[1:])
with tracelake.record():
    recording = process.current()
    (flush,) = [each.native_id for each in threading.enumerate() if each.name == "tracelake-flush"]
    time.sleep(2)
    print(json.dumps({"sidecar": recording.sidecar._process.pid, "flush": flush}), flush=True)
    began = time.monotonic()
    for tick in range(seconds * 100):
        cupti.fake_launch_many(rate // 200)
        ahead = began + (tick + 1) * 0.01 - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
    took = time.monotonic() - began
    print(json.dumps({"took": took}), flush=True)
    sys.stdin.readline()
"""


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gpu = stand_in_gpu(folder)
        chosen = settings(folder, exit_wait_seconds=120, segment_seconds=600)
        process = subprocess.Popen(
            [sys.executable, "-c", _CODE, str(SECONDS), str(EVENTS_PER_SECOND)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(**gpu, **chosen),
        )
        watched = _watch(process, raw_root(folder / "lake"))
        delays, stored = watched.pop("delays"), _stored(raw_root(folder / "lake"))
    events = SECONDS * EVENTS_PER_SECOND
    produced, dropped = stored["produced"], stored["dropped"]
    return {
        "seconds": SECONDS,
        "events_per_second": EVENTS_PER_SECOND,
        **watched,
        "produced": produced,
        "stored": stored["stored"],
        "dropped": dropped,
        "status": stored["status"],
        "bytes_per_event": round(stored["bytes"] / events, 3),
        "seconds_until_visible": {
            "youngest_event_of_a_segment": median_interval([youngest for youngest, _ in delays], 2),
            "oldest_event_of_a_segment": median_interval([oldest for _, oldest in delays], 2),
            "longest": round(max((oldest for _, oldest in delays), default=0), 2),
        },
        "holds": {"all_accounted_for": produced == stored["stored"] + dropped == events, "none_dropped": dropped == 0},
    }


def _watch(process: subprocess.Popen[str], root: Path) -> dict[str, Any]:
    """Follow both processes until the training one has ended."""
    assert process.stdout is not None and process.stdin is not None
    ready = json.loads(process.stdout.readline())
    sidecar, training = ready["sidecar"], process.pid
    threads = {"drain": thread_ids(training, DRAIN)[0], "flush": ready["flush"]}

    def costs() -> dict[str, int]:
        return {"sidecar": cpu_ns(sidecar), **{name: cpu_ns(training, task) for name, task in threads.items()}}

    before, first = costs(), {"training": resident_bytes(training), "sidecar": resident_bytes(sidecar)}
    most, seen, delays = dict(first), set[str](), list[tuple[float, float]]()
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        delays += _delays(root, seen)
        most = {
            "training": max(most["training"], resident_bytes(training)),
            "sidecar": max(most["sidecar"], resident_bytes(sidecar)),
        }
        time.sleep(0.05)
    took = json.loads(process.stdout.readline())["took"]
    spent = {name: (after - before[name]) / (SECONDS * EVENTS_PER_SECOND) for name, after in costs().items()}
    process.communicate("\n", timeout=180)
    return {
        "took_seconds": round(took, 1),
        "resident_bytes": {"at_first": first, "most": most},
        "cpu_ns_per_event": {name: round(value, 1) for name, value in spent.items()},
        "cpu_share_of_a_core": {name: round(ns * EVENTS_PER_SECOND / 1e9, 5) for name, ns in spent.items()},
        "delays": delays,
    }


def _delays(root: Path, seen: set[str]) -> list[tuple[float, float]]:
    """(youngest, oldest) age in seconds of the kernels of each segment that has become visible since."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    found = []
    for _, manifest in manifests(root) if root.exists() else ():
        for segment in manifest.segments:
            if segment.kind != "kernel" or segment.path in seen:
                continue
            now_ns = time.monotonic_ns() + offset_ns
            seen.add(segment.path)
            starts = pq.read_table(root / segment.path, columns=["start_ns"], partitioning=None)["start_ns"]
            span = pc.min_max(starts).as_py()
            found.append(((now_ns - span["max"]) / 1e9, (now_ns - span["min"]) / 1e9))
    return found


def _stored(root: Path) -> dict[str, Any]:
    """What the window's closing row says, and what its segments hold."""
    ((_, manifest),) = list(manifests(root))
    tables = [pq.read_table(root / each.path, partitioning=None) for each in manifest.segments if each.kind == "source"]
    (end,) = [row for row in tables[-1].to_pylist() if row["phase"] == "close"]
    kinds = ("kernel", "launch")
    counted = {name: {kind: int(count) for kind, count in end[name]} for name in ("produced", "dropped")}
    events = [each for each in manifest.segments if each.kind in kinds]
    return {
        "produced": sum(counted["produced"].get(kind, 0) for kind in kinds) + counted["dropped"].get("api", 0),
        "dropped": sum(counted["dropped"].get(kind, 0) for kind in ("kernel", "api")),
        "stored": sum(each.rows for each in events),
        "bytes": sum(each.bytes for each in events),
        "status": end["status"],
    }
