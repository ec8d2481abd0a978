"""The kernel's counters, of real processes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracelake.recorder.samplers import Reading
from tracelake.recorder.samplers.perf import DESCRIPTOR_LIMIT, METRICS, Counters, summed
from tracelake.recorder.samplers.perf_events import HARDWARE, SOFTWARE, Counter, Event, raw_event

FAULTS = 2_000
FAULT = f"""
import mmap, os, sys, threading
def fault():
    memory = mmap.mmap(-1, {FAULTS} * 4096)
    for page in range({FAULTS}):
        memory[page * 4096] = 1
def ready():
    print(flush=True)
    return sys.stdin.readline()
"""
HERE = FAULT + "ready(); fault(); ready()"
THREAD = FAULT + "ready(); thread = threading.Thread(target=fault); thread.start(); thread.join(); ready()"
FORK = FAULT + "ready()\nif os.fork(): os.wait()\nelse: fault(); os._exit(0)\nready()"
CHURN = (
    FAULT
    + """
while ready():
    for _ in range(300):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
"""
)


@contextmanager
def python(script: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        turn(process, b"")
        try:
            yield process
        finally:
            process.kill()


def turn(process: subprocess.Popen[bytes], text: bytes = b"go\n") -> None:
    """Let the process go on, and wait until it did what it does."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(text)
    process.stdin.flush()
    assert process.stdout.readline() == b"\n"


def values(rows: list[Reading], kind: str = "process") -> dict[str, float]:
    return {row.metric: row.value for row in rows if row.value is not None and row.entity_kind == kind}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def counting(process_id: int, descriptor_limit: int = DESCRIPTOR_LIMIT) -> Counters:
    """Of the process alone; skips where not even software events may be counted."""
    sampler = Counters(process_id, cores=False, descriptor_limit=descriptor_limit)
    rows = sampler.sample()
    if "page_faults" not in values(rows):
        sampler.close()
        pytest.skip(f"perf_event_open: {next(row.reason for row in rows if row.metric == 'page_faults')}")
    return sampler


@pytest.mark.parametrize(("script", "faults"), [(HERE, FAULTS), (THREAD, FAULTS), (FORK, 0)])
def test_page_faults_of_the_process_and_of_threads_started_later_but_not_of_forks(script: str, faults: int) -> None:
    with python(script) as process:
        sampler = counting(process.pid)
        turn(process)
        found = values(sampler.sample())
        assert faults <= found["page_faults"] < faults + FAULTS / 2
        assert 0 < found["task_clock"] < 10
        assert values(sampler.sample())["page_faults"] == 0  # differences
        sampler.close()


def test_readings_are_those_of_the_table() -> None:
    sampler = Counters(os.getpid())
    rows = sampler.sample()
    assert {(row.entity_kind, row.metric, row.unit) for row in rows} <= {row[:3] for row in METRICS}
    assert len({row[:2] for row in METRICS}) == len(METRICS)
    sampler.close()


def test_hardware_events_or_a_reason_once() -> None:
    sampler = Counters(os.getpid(), cores=False)
    sum(range(100_000))
    rows = [row for row in sampler.sample() if row.metric in {event.metric for event in HARDWARE}]
    assert len(rows) == len(HARDWARE)
    found = values(rows)
    if "instructions" in found:
        assert found["instructions"] > 100_000
    assert {row.reason for row in rows if row.value is None} <= {"not_supported", "no_permission", "not_scheduled"}
    again = sampler.sample()
    assert not [row for row in again if row.reason in {"not_supported", "no_permission"}]
    sampler.close()


def test_cores_or_a_reason() -> None:
    sampler = Counters(None)
    rows = [row for row in sampler.sample() if row.metric == "context_switches"]
    if rows[0].reason is None:
        assert len(rows) == os.cpu_count()
        time.sleep(0.01)
        assert sum(row.value or 0 for row in sampler.sample() if row.metric == "context_switches") > 0
    else:
        assert [(row.entity_id, row.reason) for row in rows] == [("all", "no_permission")]
    sampler.close()


def test_as_an_ordinary_user() -> None:
    script = (
        "import os; from tracelake.recorder.samplers.perf import Counters\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "sampler = Counters(os.getpid()); sum(range(1_000_000)); rows = sampler.sample() + sampler.sample()\n"
        "print(sampler.scope); sampler.close()\n"
        "for row in rows: print(row.entity_kind, row.metric, row.value, row.reason)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    scope, *lines = result.stdout.splitlines()
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in reversed(lines)}
    clock, why = rows["process", "task_clock"]
    assert why == "no_permission" or float(clock) > 0
    switches, why = rows["process", "context_switches"]
    assert (scope, switches, why) == ("user", "None", "no_permission") or scope == "user+kernel"


def test_raw_events_by_code() -> None:
    assert raw_event("x", "r01c2") == Event("x", 4, 0x01C2)
    assert raw_event("x", {"config": "0x1c2"}) == Event("x", 4, 0x1C2)
    assert raw_event("x", {"type": 1, "config": 2}) == Event("x", 1, 2)
    for bad in ("01c2", "rxyz", {"type": 1}, {"config": -1}, {"config": 1, "other": 2}, {"config": 1 << 64}):
        with pytest.raises(ValueError, match=r"."):
            raw_event("x", bad)


def test_events_from_settings_and_wrong_ones() -> None:
    with python(HERE) as process:
        counting(process.pid).close()
        wrong = {"bad": "?", "worse": 7}  # settings are not checked before
        sampler = Counters(process.pid, {"faults": {"type": 1, "config": 2}, **wrong}, cores=False)  # type: ignore[dict-item]
        turn(process)
        rows = sampler.sample()
        assert values(rows)["faults"] == values(rows)["page_faults"]
        assert [row.metric for row in rows if row.reason == "invalid_setting"] == ["bad", "worse"]
        sampler.close()


def test_an_event_from_settings_takes_the_place_of_a_known_one() -> None:
    sampler = Counters(os.getpid(), {"cycles": {"type": 1, "config": 2}})
    rows = sampler.sample()
    assert len([row for row in rows if row.metric == "cycles" and row.entity_kind == "process"]) == 1
    assert len({row[1:4] for row in rows}) == len(rows)
    sampler.close()


def test_thread_churn_takes_no_descriptors() -> None:
    before = descriptors()
    with python(CHURN) as process:
        sampler = counting(process.pid)
        opened = descriptors()
        for _ in range(3):
            turn(process)
            assert values(sampler.sample())["task_clock"] > 0
            assert descriptors() == opened
        sampler.close()
    assert descriptors() <= before


def test_descriptors_are_bounded_and_given_back() -> None:
    before = descriptors()
    sampler = Counters(os.getpid(), descriptor_limit=3)
    rows = sampler.sample()
    assert descriptors() <= before + 3
    sampler.close()
    assert descriptors() == before
    if "page_faults" in values(rows):
        assert "too_many_open_files" in {row.reason for row in rows}


def test_threads_over_the_limit_are_told() -> None:
    script = (
        FAULT + "[threading.Thread(target=threading.Event().wait, daemon=True).start() for _ in range(20)]; ready()"
    )
    with python(script) as process:
        sampler = counting(process.pid, descriptor_limit=len(SOFTWARE + HARDWARE) * 5)
        assert values(sampler.sample())["uncounted_threads"] == 16
        sampler.close()


def test_a_process_that_ended_is_said_once() -> None:
    with python(HERE) as process:
        before = descriptors()
        sampler = counting(process.pid)
        process.kill()
        process.wait()
        sampler.sample()  # what was counted up to the end
        assert {row.reason for row in sampler.sample()} == {"process_gone"}
        assert sampler.sample() == []
        assert descriptors() == before


def test_no_such_process() -> None:
    sampler = Counters(2**22 + 1, cores=False)  # over the highest number there is
    assert {row.reason for row in sampler.sample()} == {"process_gone"}
    assert sampler.sample() == []


def test_values_are_scaled_up_where_events_took_turns() -> None:
    pipes = [os.pipe() for _ in range(2)]
    group = [Counter(reading) for reading, _ in pipes]

    def put(place: int, counted: int, enabled_ns: int, running_ns: int) -> None:
        os.write(pipes[place][1], struct.pack("QQQ", counted, enabled_ns, running_ns))

    put(0, 100, 1_000, 250)
    put(1, 50, 500, 500)
    assert summed(group) == (450.0, 1_500, 750)
    put(0, 130, 2_000, 500)  # 30 more in a quarter of the time
    put(1, 50, 500, 500)  # did not run
    assert summed(group) == (120.0, 1_000, 250)
    put(0, 130, 3_000, 500)  # had no turn: unknown
    put(1, 60, 600, 600)
    assert summed(group) == (None, 1_100, 100)
    for counter, (_, writing) in zip(group, pipes, strict=True):
        counter.close()
        os.close(writing)
