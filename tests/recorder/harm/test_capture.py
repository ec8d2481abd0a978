"""GPU events from the tool to the lake, with a stand-in for CUPTI: exact counts, and every way in which it fails."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from recorded import GPU_PREAMBLE as PREAMBLE
from recorded import Lake, environment, run, start, wait_until_delivered

MIB = 1 << 20


def counts(row: dict[str, Any], name: str) -> dict[str, int]:
    return {kind: int(count) for kind, count in row[name]}


def test_every_launch_and_kernel_arrives_with_its_thread_and_step(tmp_path: Path, gpu: dict[str, str]) -> None:
    text = (
        PREAMBLE
        + """
with tracelake.record():
    for step in range(5):
        with tracelake.annotate(f"step_{step}"):
            cupti.fake_launch_many(1000)
"""
    )
    done = run(tmp_path, text, {**environment(tmp_path), **gpu})
    assert done.returncode == 0, done.stderr
    lake = wait_until_delivered(tmp_path)
    (end,) = lake.closing()
    assert (end["status"], end["capture"], end["capture_reason"]) == ("complete", "cupti", None)
    kernels, launches = lake.rows("kernel"), lake.rows("launch")
    assert len(kernels) == len(launches) == 5_000
    assert {row["correlation_id"] for row in kernels} == {row["correlation_id"] for row in launches}
    steps = {row["text"]: row for row in lake.rows("annotation")}
    for row in steps.values():
        inside = [
            each for each in launches if row["start_ns"] <= each["start_ns"] < row["start_ns"] + row["duration_ns"]
        ]
        assert len(inside) == 1_000
        assert {each["thread_id"] for each in inside} == {77}, "the stand-in's only thread"
    produced, stored = counts(end, "produced"), Counter({m.kind: m.rows for m in lake.manifests()[0].segments})
    assert {kind: produced[kind] for kind in ("kernel", "launch", "annotation")} == {
        kind: stored[kind] for kind in ("kernel", "launch", "annotation")}  # fmt: skip
    assert '"uuid"' in end["devices"]


@pytest.mark.parametrize(
    ("call", "code"), [("fake_subscribe_code(39)", "cupti_busy"), ("fake_enable_code(35)", "cupti_refused")]
)
def test_a_tool_that_refuses_is_told_and_the_job_goes_on(
    tmp_path: Path, gpu: dict[str, str], call: str, code: str
) -> None:
    text = (
        PREAMBLE
        + f"""
cupti.{call}
with tracelake.record():
    with tracelake.annotate("step_1"):
        pass
print("done")
"""
    )
    done = run(tmp_path, text, {**environment(tmp_path), **gpu})
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert code in done.stderr
    lake = wait_until_delivered(tmp_path)
    (end,) = lake.closing()
    assert (end["status"], end["status_reason"], end["capture"]) == ("degraded", "gpu_capture_failed", "none")
    assert end["capture_reason"].startswith(f"{code}: ")
    assert [row["text"] for row in lake.rows("annotation")] == ["step_1"]


def test_without_a_gpu_nothing_is_wrong(tmp_path: Path) -> None:
    done = run(tmp_path, "import tracelake\nwith tracelake.record():\n    pass\n", environment(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    (end,) = wait_until_delivered(tmp_path).closing()
    assert (end["status"], end["capture"]) == ("complete", "none")
    assert end["capture_reason"].startswith("no_driver: ")


def test_a_thousand_windows_leave_memory_flat_and_each_its_events(tmp_path: Path, gpu: dict[str, str]) -> None:
    text = (
        PREAMBLE
        + """
profiler = tracelake.Profiler.instance()
profiler.configure(sampling_interval_ms=1000)

def rss():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

slowest = 0
for cycle in range(1000):
    profiler.start_profiling()
    with tracelake.annotate(f"cycle_{cycle}"):
        cupti.fake_launch_many(3)
    began = time.monotonic()
    profiler.stop_profiling()
    slowest = max(slowest, time.monotonic() - began)
    if cycle == 200:
        early = rss()
print(rss() - early, slowest)
"""
    )
    done = run(tmp_path, text, {**environment(tmp_path, exit_wait_seconds=60), **gpu})
    assert done.returncode == 0, done.stderr
    grown, slowest = done.stdout.split()
    assert int(grown) < 8 * MIB
    assert float(slowest) < 2
    lake = wait_until_delivered(tmp_path)
    ends = lake.closing()
    assert len(ends) == 1_000
    assert {row["status"] for row in ends} == {"complete"}
    assert all(counts(row, "produced")["kernel"] == 3 for row in ends)
    assert all(later["previous_source_id"] == row["source_id"] for row, later in pairwise(ends))


# A half hour at 50,000 events/s, scaled to twelve seconds of it.
LOAD = (
    PREAMBLE
    + """
import glob, threading
import resource

def rss(pid):
    return int(open(f"/proc/{pid}/statm").read().split()[1]) * 4096

with tracelake.record():
    sidecar = process.current().sidecar._process.pid
    time.sleep(1)
    first = rss(os.getpid())
    most = most_there = 0
    began = time.monotonic()
    for tick in range(1200):
        cupti.fake_launch_many(250)
        if tick % 20 == 0:
            most, most_there = max(most, rss(os.getpid())), max(most_there, rss(sidecar))
        ahead = began + (tick + 1) * 0.01 - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
    took = time.monotonic() - began
print(most - first, most_there, took)
"""
)


def test_fifty_thousand_events_a_second_stay_within_the_memory_budget(tmp_path: Path, gpu: dict[str, str]) -> None:
    done = run(tmp_path, LOAD, {**environment(tmp_path, exit_wait_seconds=60), **gpu})
    assert done.returncode == 0, done.stderr
    grown, there, took = map(float, done.stdout.split())
    assert grown < 64 * MIB
    assert there < 256 * MIB
    assert took < 24
    lake = wait_until_delivered(tmp_path)
    (end,) = lake.closing()
    assert _accounted(lake, end) == 600_000
    assert end["dropped"] == []


def test_a_tool_that_outruns_everything_drops_exactly_what_is_missing(tmp_path: Path, gpu: dict[str, str]) -> None:
    text = (
        PREAMBLE
        + """
import threading
with tracelake.record():
    threads = [threading.Thread(target=cupti.fake_launch_many, args=(100_000,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
    )
    done = run(tmp_path, text, {**environment(tmp_path, memory_budget_bytes=MIB, exit_wait_seconds=60), **gpu})
    assert done.returncode == 0, done.stderr
    lake = wait_until_delivered(tmp_path)
    (end,) = lake.closing()
    assert _accounted(lake, end) == 1_600_000
    assert end["status"] == ("degraded" if end["dropped"] else "complete")


def _accounted(lake: Lake, end: dict[str, Any]) -> int:
    """Kernels and calls stored and dropped; what is stored is what the closing row says."""
    stored = {segment.kind: 0 for segment in lake.manifests()[0].segments}
    for segment in lake.manifests()[0].segments:
        stored[segment.kind] += segment.rows
    dropped, produced = counts(end, "dropped"), counts(end, "produced")
    assert "spool" not in dropped
    for kind in ("kernel", "launch"):
        assert produced[kind] == stored[kind] + dropped.get(kind, 0)
    return stored["kernel"] + stored["launch"] + dropped.get("kernel", 0) + dropped.get("api", 0)


def test_a_process_that_is_killed_keeps_its_gpu_events(tmp_path: Path, gpu: dict[str, str]) -> None:
    text = (
        PREAMBLE
        + """
with tracelake.record():
    cupti.fake_launch_many(1000)
    time.sleep(1.0)
    print("now", flush=True)
    time.sleep(60)
"""
    )
    process = start(tmp_path, text, {**environment(tmp_path), **gpu})
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    process.kill()
    process.communicate()
    lake = wait_until_delivered(tmp_path)
    assert len(lake.rows("kernel")) == len(lake.rows("launch")) == 1_000
    assert lake.closing()[0]["status"] == "interrupted"
