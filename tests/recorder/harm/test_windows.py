"""Windows: by schedule, from outside, in a job that is still running, and whatever the wall clock does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from recorded import Lake, environment, run, start, wait_for, wait_until_delivered

from tracelake.recorder import control

STEPS = """
import sys, time
import tracelake

with tracelake.record():
    for step in range(int(sys.argv[1])):
        with tracelake.annotate(f"step_{step}"):
            with tracelake.annotate("forward"):
                time.sleep(0.002)
"""


@pytest.mark.parametrize(
    ("windows", "recorded"),
    [
        ("every 10 steps record 2", [[0, 1], [10, 11], [20, 21]]),
        ("steps 5-7", [[5, 6, 7]]),
        ("none", []),
    ],
)
def test_windows_follow_the_steps(tmp_path: Path, windows: str, recorded: list[list[int]]) -> None:
    done = run(tmp_path, STEPS, environment(tmp_path, windows=windows), "30")
    assert done.returncode == 0, done.stderr
    lake = wait_until_delivered(tmp_path)
    found = []
    for end in lake.closing():
        rows = lake.rows("annotation", source_id=end["source_id"])
        steps = [int(row["text"].removeprefix("step_")) for row in rows if row["text"].startswith("step_")]
        if steps:
            found.append(steps)
            assert sum(row["text"] == "forward" for row in rows) == len(steps)
    assert found == recorded


def test_windows_follow_the_clock(tmp_path: Path) -> None:
    done = run(tmp_path, STEPS, environment(tmp_path, windows="seconds 1-2"), "1200")
    assert done.returncode == 0, done.stderr
    lake = wait_until_delivered(tmp_path)
    (end,) = lake.closing()
    length_ns = end["window_end_ns"] - end["window_start_ns"]
    assert 0.4e9 < length_ns < 1.6e9


def test_a_running_job_is_recorded_on_demand_and_can_be_read_while_it_runs(tmp_path: Path) -> None:
    process = start(tmp_path, STEPS, environment(tmp_path, windows="none", segment_seconds=0.3), "100000")
    try:
        spool = wait_for(lambda: list((tmp_path / "spool").glob("*/process.json")), "the spool")[0].parent
        lake = Lake(tmp_path / "lake")
        control.give(spool, "start")
        wait_for(lambda: lake.rows("annotation"), "rows of a job that runs")
        (manifest,) = lake.manifests()
        assert (manifest.status, manifest.closed) == ("running", False)
        (row,) = lake.rows("source")
        assert (row["phase"], row["state"]) == ("open", "in_progress")
        control.give(spool, "stop")
        wait_for(lake.closing, "the window's end")
        control.give(spool, "start 0.5")
        wait_for(lambda: len(lake.closing()) == 2, "the end of half a second")
    finally:
        process.kill()
        process.communicate()
    ends = wait_until_delivered(tmp_path).closing()
    assert [row["status"] for row in ends] == ["complete", "complete"]


def test_a_command_that_is_none_is_refused(tmp_path: Path) -> None:
    for command in ("", "halt", "start -1", "start x", "stop 3", "start 1 2"):
        with pytest.raises(ValueError, match="write start"):
            control.give(tmp_path, command)


def test_steps_of_the_wall_clock_change_nothing(tmp_path: Path) -> None:
    """The clock jumps an hour ahead and a day back inside one window: rows keep the window's clock."""
    text = """
    import time
    import tracelake
    real = time.time_ns
    with tracelake.record():
        for step, shift in enumerate((0, 3600, -86400, 0)):
            time.time_ns = lambda shift=shift: real() + shift * 10**9
            with tracelake.annotate(f"step_{step}"):
                time.sleep(0.2)
    """
    done = run(tmp_path, text, environment(tmp_path))
    assert done.returncode == 0, done.stderr
    lake = wait_until_delivered(tmp_path)
    rows = sorted(lake.rows("annotation"), key=lambda row: row["start_ns"])
    assert [row["text"] for row in rows] == [f"step_{i}" for i in range(4)]
    assert all(0.2e9 <= row["duration_ns"] < 1e9 for row in rows)
    assert rows[-1]["start_ns"] - rows[0]["start_ns"] < 5e9
    (end,) = lake.closing()
    assert end["window_end_ns"] - end["window_start_ns"] < 5e9


def test_threads_and_tasks_each_keep_their_ranges(tmp_path: Path) -> None:
    text = """
    import asyncio, threading
    import tracelake

    async def job(name):
        with tracelake.annotate(name):
            await asyncio.sleep(0.01)

    async def main(thread):
        await asyncio.gather(*(job(f"{thread}.{i}") for i in range(20)))

    with tracelake.record():
        threads = [threading.Thread(target=lambda t=t: asyncio.run(main(t))) for t in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
    done = run(tmp_path, text, environment(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = wait_until_delivered(tmp_path).rows("annotation")
    assert sorted(row["text"] for row in rows) == sorted(f"{t}.{i}" for t in range(6) for i in range(20))
    assert all(row["duration_ns"] >= 10_000_000 for row in rows)
    assert len({row["thread_id"] for row in rows}) == 6


def test_the_recorder_works_in_a_thread_where_no_process_may_be_started(tmp_path: Path) -> None:
    done = run(tmp_path, STEPS, environment(tmp_path, sidecar=0), "50")
    assert done.returncode == 0, done.stderr
    lake = wait_until_delivered(tmp_path)
    assert len(lake.rows("annotation")) == 100
    assert lake.closing()[0]["state"] == "completed"


def test_everything_off_costs_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, STEPS, environment(tmp_path, enabled=0), "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "lake").exists() and not (tmp_path / "spool").exists()


def test_a_training_process_loads_none_of_the_heavy_libraries(tmp_path: Path) -> None:
    text = """
    import sys
    import tracelake
    with tracelake.record():
        with tracelake.annotate("step_1"):
            pass
        loaded = {name.partition(".")[0] for name in sys.modules}
    print(sorted(loaded & {"pyarrow", "numpy", "pynvml", "psutil", "boto3", "pyspark", "pandas", "asyncio", "ssl"}))
    """
    done = run(tmp_path, text, environment(tmp_path))
    assert done.stdout == "[]\n"
    wait_until_delivered(tmp_path)


def test_the_public_names_are_those_of_both_packages() -> None:
    code = """
import tracelake, tracelake.recorder
names = ["Config", "Profiler", "annotate", "annotation_begin", "annotation_end", "record"]
for name in names:
    assert getattr(tracelake, name) is getattr(tracelake.recorder, name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
