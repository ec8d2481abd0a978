"""The job ends as it would without us, and keeps what was recorded (case 31)."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from recorded import Lake, environment, start, wait_for, wait_until_delivered

# Says how many events it made, in a file that outlives it: a byte each.
LOOP = """
import pathlib, signal, sys, time
import tracelake

if "handler" in sys.argv:
    def leave(number, frame):
        pathlib.Path("handled").touch()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    signal.signal(signal.SIGTERM, leave)
with open("made", "ab", buffering=0) as made, tracelake.record():
    pathlib.Path("ready").touch()
    while True:
        with tracelake.annotate("event"):
            time.sleep(0.002)
        made.write(b".")
"""
PER_SECOND = 450


def loop(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    process = start(tmp_path, LOOP, environment(tmp_path, segment_seconds=0.5), *arguments)
    made = tmp_path / "made"
    wait_for(lambda: made.exists() and made.stat().st_size > 2 * PER_SECOND, "two seconds of events")
    return process


def recorded_and_made(tmp_path: Path) -> tuple[Lake, int, int]:
    lake = wait_until_delivered(tmp_path)
    whole = [row for row in lake.rows("annotation") if row["duration_ns"] is not None]
    return lake, len(whole), (tmp_path / "made").stat().st_size


def test_sigterm_calls_the_users_handler_and_loses_one_flush_at_most(tmp_path: Path) -> None:
    process = loop(tmp_path, "handler")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
    assert (tmp_path / "handled").exists()
    lake, recorded, made = recorded_and_made(tmp_path)
    assert made - PER_SECOND <= recorded <= made + 1
    (end,) = lake.closing()
    assert (end["status"], end["status_reason"]) == ("interrupted", "process_ended")


def test_sigterm_without_a_handler_still_ends_the_process_at_once(tmp_path: Path) -> None:
    process = loop(tmp_path)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=5)
    assert process.returncode == -signal.SIGTERM
    _, recorded, made = recorded_and_made(tmp_path)
    assert made - PER_SECOND <= recorded <= made + 1


def test_sigkill_loses_a_second_at_most_and_marks_the_window(tmp_path: Path) -> None:
    process = loop(tmp_path)
    process.kill()
    process.communicate(timeout=5)
    assert process.returncode == -signal.SIGKILL
    lake, recorded, made = recorded_and_made(tmp_path)
    assert made - PER_SECOND <= recorded <= made + 1
    (end,) = lake.closing()
    assert (end["status"], end["state"]) == ("interrupted", None)
    assert end["rows_stored_count"] == sum(segment.rows for m in lake.manifests() for segment in m.segments
                                           if segment.kind != "source")  # fmt: skip
    assert lake.stray_files() == []


def test_when_both_processes_are_killed_the_spool_gives_everything_back(tmp_path: Path) -> None:
    from tracelake.recorder.sidecar.run import recover

    process = loop(tmp_path)
    sidecar = int(subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout)
    subprocess.run(["kill", "-9", str(sidecar), str(process.pid)], check=True)
    process.communicate(timeout=5)
    wait_for(lambda: not Path(f"/proc/{sidecar}").exists(), "the sidecar's end")
    assert recover(tmp_path / "spool") == 1
    lake, recorded, made = recorded_and_made(tmp_path)
    assert made - PER_SECOND <= recorded <= made + 1
    assert len({row["event_id"] for row in lake.rows("annotation")}) == len(lake.rows("annotation"))


def test_a_sidecar_that_is_killed_is_started_again_and_no_event_is_lost(tmp_path: Path) -> None:
    process = loop(tmp_path)
    wait_for(lambda: Lake(tmp_path / "lake").table("annotation"), "a first segment")
    first = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(["kill", "-9", first], check=True)

    def second() -> str:
        found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
        return found.stdout.strip() if found.stdout.strip() != first else ""

    wait_for(second, "another sidecar")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    lake, recorded, made = recorded_and_made(tmp_path)
    assert made - PER_SECOND <= recorded <= made + 1
    assert len({row["event_id"] for row in lake.rows("annotation")}) == len(lake.rows("annotation"))
    assert "sidecar_restarted" in lake.closing()[0]["flags"]


@pytest.mark.parametrize("where", ["block", "inside stop", "inside flush"])
def test_the_users_own_exception_is_the_one_that_surfaces(tmp_path: Path, where: str) -> None:
    text = f"""
    import tracelake
    from tracelake.recorder import process
    where = {where!r}

    def broken(*_, **__):
        raise RuntimeError("ours")

    with tracelake.record():
        with tracelake.annotate("step_1"):
            pass
        process.current().outgoing.flush() if where == "inside stop" else None
        if where == "inside stop":
            process.Recording.stop = broken
        if where == "inside flush":
            type(process.current().outgoing).flush = broken
        raise KeyError("the job's own")
    """
    process = start(tmp_path, text, environment(tmp_path))
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert 'KeyError: "the job\'s own"' in err
    assert "RuntimeError" not in err
    lake = wait_until_delivered(tmp_path)
    (end,) = lake.closing()
    assert end["state"] in ("failed", None)
    if where != "inside flush":
        assert [row["text"] for row in lake.rows("annotation")] == ["step_1"]
