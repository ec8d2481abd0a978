"""From spool to segments: every record by hand, every row accounted for, whatever the sidecar suffers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from recorded import Lake
from sidecar_cases import (
    APIS,
    KERNEL,
    MEMCPY,
    MEMSET,
    OFFSET_NS,
    OVERHEAD,
    PEER,
    RUNTIME,
    SYNC,
    Spool,
    kernel,
    launch,
    record,
)

from tracelake.recorder.sidecar.loop import Loop
from tracelake.recorder.sidecar.roll import Roll
from tracelake.recorder.sidecar.run import recover, run


@pytest.fixture(autouse=True)
def _no_midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of these tests start when the machine did, perhaps days ago."""
    monkeypatch.setattr(Loop, "_must_roll", lambda *_: False)


def test_every_kind_of_record_becomes_its_row(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.journal.write("apis", APIS)
    spool.open("w1", 1_000)
    spool.ranges((1, "step_1", 1_500, 9_000))
    spool.events(
        launch(2_000, 11),
        record(RUNTIME, 8_000, 500, 12, name=131, a=99),
        record(RUNTIME, 8_600, 10, 13, name=20),
        kernel(9_000, 11),
        record(MEMCPY, 10_000, 300, 14, name=1, device=1, stream=7, a=5, b=1, c=2 | 3 << 8),
        record(PEER, 11_000, 300, 15, name=10, stream=8, a=64, c=0 | 1 << 16),
        record(MEMSET, 12_000, 20, 16, name=0, stream=7, a=4096),
        record(SYNC, 12_500, 0, 17, name=2, stream=9, a=3),
        record(OVERHEAD, 13_000, 40, name=1),
    )
    spool.close("w1", 20_000, {"kernel": 1, "memop": 3, "sync": 1, "api": 3, "overhead": 1})
    spool.exit()
    assert run(spool.folder, sample=False)
    lake = Lake(spool.lake)

    (row,) = lake.rows("kernel")
    assert row["name"] == "add(float*, float*)"
    assert (row["start_ns"], row["duration_ns"], row["correlation_id"]) == (OFFSET_NS + 9_000, 7_000, 11)
    assert (row["device_index"], row["stream_id"], row["grid_count"], row["block_count"]) == (0, 7, 128, 256)
    (row,) = lake.rows("launch")
    assert (row["api_name"], row["thread_id"], row["correlation_id"]) == ("cudaLaunchKernel_v7000", 42, 11)
    called, marker = lake.rows("sync")
    assert (called["kind"], called["thread_id"], called["device_index"]) == ("stream_synchronize", 99, None)
    assert (marker["kind"], marker["thread_id"], marker["stream_id"]) == ("stream_wait_event", None, 9)
    copied, peer, filled = lake.rows("memop")
    assert (copied["kind"], copied["direction"], copied["memory_kind"]) == ("memcpy", "htod", "pinned")
    assert (copied["bytes"], copied["device_index"]) == (2**32 + 5, 1)
    assert (peer["direction"], peer["bytes"], peer["memory_kind"]) == ("ptop", 64, None)
    assert (filled["kind"], filled["direction"], filled["bytes"]) == ("memset", None, 4096)
    (row,) = lake.rows("annotation")
    assert (row["text"], row["thread_id"], row["start_ns"], row["duration_ns"]) == (
        "step_1", 42, OFFSET_NS + 1_500, 7_500)  # fmt: skip

    (end,) = lake.closing()
    assert (end["status"], end["state"], end["capture"]) == ("complete", "completed", "cupti")
    assert dict(end["skipped"]) == {"other_api": "1", "overhead": "1"}
    assert dict(end["produced"]) == {"kernel": "1", "launch": "1", "sync": "2", "memop": "3", "annotation": "1"}
    assert end["rows_read_count"] == end["rows_stored_count"] + end["rows_skipped_count"] == 10
    assert (end["window_start_ns"], end["window_end_ns"]) == (OFFSET_NS + 1_000, OFFSET_NS + 20_000)
    assert not spool.folder.exists()


def test_a_time_that_the_tool_did_not_know_stays_unknown(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.open("w1", 1_000)
    spool.events(record(KERNEL, 0, 0, 1))
    spool.close("w1", 2_000, {"kernel": 1})
    spool.exit()
    assert run(spool.folder, sample=False)
    assert Lake(spool.lake).rows("kernel")[0]["start_ns"] == 0


def test_windows_share_a_spool_and_keep_their_events_apart(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(3):
        spool.open(f"w{number}", 1_000 * number, previous=f"w{number - 1}" if number else None)
        spool.events(*[kernel(1_000 * number + i, i + 1, name=1) for i in range(number + 1)])
        spool.close(f"w{number}", 1_000 * number + 900, {"kernel": number + 1})
    spool.exit()
    assert run(spool.folder, sample=False)
    lake = Lake(spool.lake)
    assert Counter(row["source_id"] for row in lake.rows("kernel")) == {"w0": 1, "w1": 2, "w2": 3}
    assert [row["state"] for row in lake.closing()] == ["in_progress", "in_progress", "completed"]
    assert [row["previous_source_id"] for row in lake.closing()] == [None, "w0", "w1"]


def test_a_killed_process_leaves_an_interrupted_window_with_all_that_was_spooled(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.open("w1", 1_000)
    spool.ranges((1, "step_1", 1_100, 1_900), (2, "step_2", 2_000, 0))
    spool.events(launch(2_100, 1), kernel(2_200, 1), b"torn record")
    spool.journal.write("beat", {"at_ns": 9_000, "produced": {"kernel": 5}, "dropped": {"kernel": 3}})
    spool.journal.close()
    assert run(spool.folder, sample=False)
    lake = Lake(spool.lake)
    (end,) = lake.closing()
    assert (end["status"], end["status_reason"], end["state"]) == ("interrupted", "process_ended", None)
    assert end["window_end_ns"] == OFFSET_NS + 9_000
    assert dict(end["dropped"]) == {"kernel": "3"}
    assert [(row["text"], row["duration_ns"]) for row in lake.rows("annotation")] == [("step_1", 800), ("step_2", None)]
    assert len(lake.rows("kernel")) == 1


def test_drops_and_losses_are_counted_by_kind_and_told(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.open("w1", 1_000)
    spool.events(kernel(1_100, 1))
    spool.close("w1", 2_000, {"kernel": 10, "api": 2}, {"kernel": 7, "annotation": 4})
    spool.exit()
    assert run(spool.folder, sample=False)
    lake = Lake(spool.lake)
    (end,) = lake.closing()
    # Of 12 native records 7 were dropped and 1 is here: 4 are missing from the spool.
    assert dict(end["dropped"]) == {"kernel": "7", "annotation": "4", "spool": "4"}
    assert (end["status"], end["status_reason"]) == ("degraded", "events_dropped")
    told = {(row["reason"], row["excerpt"]): row["rows_count"] for row in lake.rows("loss")}
    assert told == {("dropped", "kernel"): 7, ("dropped", "annotation"): 4, ("spool_lost", "spool"): 4}


def test_another_profilers_time_is_a_gap_in_the_data(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.open("w1", 1_000)
    spool.journal.write("gap", {"start_ns": 1_200, "end_ns": 1_400, "reason": "another_profiler"})
    spool.close("w1", 2_000, {})
    spool.exit()
    assert run(spool.folder, sample=False)
    lake = Lake(spool.lake)
    assert lake.closing()[0]["flags"] == ["another_profiler"]
    (row,) = lake.rows("loss")
    assert row["excerpt"] == f"{OFFSET_NS + 1_200} to {OFFSET_NS + 1_400} ns"


@pytest.mark.parametrize(("code", "status"), [("cupti_busy", "degraded"), ("no_gpu", "complete")])
def test_why_there_are_no_gpu_events_is_in_the_data(tmp_path: Path, code: str, status: str) -> None:
    spool = Spool(tmp_path)
    spool.open("w1", 1_000, capture="none", capture_code=code, capture_text="another tool holds CUPTI")
    spool.close("w1", 2_000, {})
    spool.exit()
    assert run(spool.folder, sample=False)
    (end,) = Lake(spool.lake).closing()
    assert (end["status"], end["capture"]) == (status, "none")
    assert end["status_reason"] == ("gpu_capture_failed" if status == "degraded" else None)
    assert end["capture_reason"] == f"{code}: another tool holds CUPTI"


def test_a_script_that_never_records_still_leaves_its_samples_and_its_end(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.exit("failed")
    assert run(spool.folder)
    lake = Lake(spool.lake)
    (end,) = lake.closing()
    assert (end["source_id"], end["window_start_ns"], end["state"]) == ("w0", None, "failed")
    assert lake.rows("sample")


def dies(_: Loop) -> None:
    raise OSError("dies here")


def test_a_sidecar_that_dies_at_any_turn_changes_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one goes on from the last checkpoint; segments that the old one wrote after it are written again."""
    monkeypatch.setattr(Loop, "_age", lambda _: 0.0)
    spool = Spool(tmp_path, segment_rows=10)
    spool.journal.write("apis", APIS)
    spool.open("w1")
    for turn in range(12):
        start_ns = 1_000_000 * (turn + 1)
        spool.ranges((turn + 1, f"step_{turn}", start_ns, start_ns + 500_000 if turn % 3 else 0))
        if turn and turn % 3 == 1:
            spool.ranges((turn, f"step_{turn - 1}", start_ns - 1_000_000, start_ns - 500))
        spool.events(*[launch(start_ns + i, turn * 7 + i + 1) for i in range(7)])
        spool.events(*[kernel(start_ns + 1_000 + i, turn * 7 + i + 1, name=i % 2) for i in range(7)])
        dying = Loop(spool.folder, sample=False)
        dying.turn()
        if turn % 4 == 2:
            dying.turn()
        dying.delivery.push()
        if turn % 5 == 4:
            # Dies after it wrote a segment and before it said so.
            with monkeypatch.context() as patch, pytest.raises(OSError, match="dies here"):
                patch.setattr(Loop, "_save", dies)
                Loop(spool.folder, sample=False)._checkpoint(everything=True)
    spool.close("w1", 20_000_000, {"kernel": 84, "api": 84})
    spool.exit()
    assert run(spool.folder, sample=False)
    lake = Lake(spool.lake)
    kernels, launches = lake.rows("kernel"), lake.rows("launch")
    assert sorted(row["correlation_id"] for row in kernels) == list(range(1, 85))
    assert sorted(row["correlation_id"] for row in launches) == list(range(1, 85))
    assert sorted(row["event_id"] for row in kernels) == list(range(84))
    assert {row["thread_id"] for row in launches} == {42}
    assert Counter(row["text"] for row in lake.rows("annotation")) == {f"step_{i}": 1 for i in range(12)}
    (end,) = lake.closing()
    assert (end["status"], end["dropped"], end["flags"]) == ("complete", [], ["sidecar_restarted"])


def test_at_midnight_a_window_becomes_two_and_no_launch_loses_its_kernels(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.journal.write("apis", APIS)
    spool.open("w1", 1_000)
    loop = Loop(spool.folder, sample=False)
    loop.turn()
    assert loop.window is not None
    old = loop.window
    loop.roll = Roll(old, loop._replaced(old), grace_seconds=0)
    at_ns = loop.roll.at_ns
    spool.ranges((1, "step_1", at_ns - 100, at_ns + 900), (2, "step_2", at_ns + 950, at_ns + 990))
    spool.events(kernel(at_ns + 50, 1), kernel(at_ns + 60, 2), kernel(at_ns + 80, 3))
    spool.events(launch(at_ns - 20, 1), launch(at_ns - 10, 2), launch(at_ns + 70, 3))
    loop.turn()
    loop.turn()
    assert loop.roll is None
    spool.close("w1", at_ns + 2_000, {"kernel": 3, "api": 3})
    spool.exit()
    loop.turn()
    loop.finish()
    assert loop.delivery.finish(5)
    lake = Lake(spool.lake)
    first, second = lake.closing()
    if first["source_id"] != "w1":
        first, second = second, first
    assert second["previous_source_id"] == "w1"
    assert first["window_end_ns"] == second["window_start_ns"] == OFFSET_NS + at_ns
    for kind in ("kernel", "launch"):
        assert {row["correlation_id"] for row in lake.rows(kind, source_id="w1")} == {1, 2}
        assert {row["correlation_id"] for row in lake.rows(kind, source_id=second["source_id"])} == {3}
    assert [row["text"] for row in lake.rows("annotation", source_id="w1")] == ["step_1"]
    assert [row["text"] for row in lake.rows("annotation", source_id=second["source_id"])] == ["step_2"]
    assert (first["status"], second["status"], second["state"]) == ("complete", "complete", "completed")


def test_a_running_window_shows_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loop, "_age", lambda _: 0.0)
    spool = Spool(tmp_path)
    spool.open("w1")
    spool.events(kernel(1_000, 1))
    loop = Loop(spool.folder, sample=False)
    loop.turn()
    assert loop.delivery.push()
    lake = Lake(spool.lake)
    (manifest,) = lake.manifests()
    assert (manifest.status, manifest.closed, manifest.rows["stored"]) == ("running", False, 1)
    (row,) = lake.rows("source")
    assert (row["phase"], row["status"], row["rows_stored_count"]) == ("open", "running", 1)
    spool.events(kernel(2_000, 2))
    loop.turn()
    assert loop.delivery.push()
    assert [row["event_id"] for row in lake.rows("kernel")] == [0, 1]


def test_spools_left_behind_are_recovered_and_one_in_use_is_left_alone(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.open("w1", 1_000)
    spool.events(kernel(1_100, 1))
    spool.journal.close()
    with loop_lock(spool.folder):
        assert recover(tmp_path / "spool") == 0
        assert spool.folder.exists()
    assert recover(tmp_path / "spool") == 1
    assert len(Lake(spool.lake).rows("kernel")) == 1


def loop_lock(folder: Path):  # type: ignore[no-untyped-def]
    from tracelake.recorder.sidecar.run import _claimed

    return _claimed(folder)


def test_an_output_that_fails_keeps_everything_until_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path)
    spool.lake.write_text("a file where the lake should be")
    spool.open("w1", 1_000)
    spool.events(kernel(1_100, 1))
    spool.close("w1", 2_000, {"kernel": 1})
    spool.exit()
    from tracelake.recorder.sidecar import deliver

    monkeypatch.setattr(deliver.Delivery.finish, "__defaults__", (0.5,))
    assert not run(spool.folder, sample=False)
    assert spool.folder.exists()
    spool.lake.unlink()
    assert recover(spool.folder) == 1
    assert len(Lake(spool.lake).rows("kernel")) == 1


def test_an_unknown_frame_is_no_reason_to_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = Spool(tmp_path)
    spool.journal.write("of_the_future", {"a": 1})
    spool.open("w1", 1_000)
    spool.close("w1", 2_000, {})
    spool.exit()
    assert run(spool.folder, sample=False)
    assert "of_the_future" in caplog.text
    assert json.loads(next((spool.lake / "raw/v1/manifest").rglob("*.json")).read_text())["closed"]


def test_a_disk_that_cannot_be_written_for_some_turns_costs_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write fails twice before it works, wherever it stands: opening, checkpoints, closing, rolling."""
    from tracelake.recorder.segments import SourceWriter

    failures = {"write": 0, "close": 0}

    def failing(name: str, inner: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            failures[name] += 1
            if failures[name] % 3:
                raise OSError(28, "No space left on device")
            return inner(*arguments, **named)

        return call

    monkeypatch.setattr(SourceWriter, "write", failing("write", SourceWriter.write))
    monkeypatch.setattr(SourceWriter, "close", failing("close", SourceWriter.close))
    monkeypatch.setattr(Loop, "_age", lambda _: 0.0)
    spool = Spool(tmp_path)
    spool.journal.write("apis", APIS)
    loop = Loop(spool.folder, sample=False)
    for number in range(3):
        spool.open(f"w{number}", 1_000 * number)
        spool.ranges((number + 1, f"step_{number}", 1_000 * number + 1, 0))
        spool.events(*[launch(1_000 * number + i, 10 * number + i + 1) for i in range(5)])
        loop._safely_turn()
        spool.events(*[kernel(1_000 * number + i, 10 * number + i + 1) for i in range(5)])
        spool.close(f"w{number}", 1_000 * number + 900, {"kernel": 5, "api": 5}, {"annotation": 2})
        loop._safely_turn()
    spool.exit()
    for _ in range(100):
        loop._safely_turn()
        if loop.exit is not None and loop.window is None:
            break
    monkeypatch.undo()
    loop.finish()
    assert loop.delivery.finish(5)
    lake = Lake(spool.lake)
    for kind in ("kernel", "launch"):
        assert Counter(row["source_id"] for row in lake.rows(kind)) == {"w0": 5, "w1": 5, "w2": 5}
        assert len({(row["source_id"], row["event_id"]) for row in lake.rows(kind)}) == 15
    assert [row["text"] for row in lake.rows("annotation")] == ["step_0", "step_1", "step_2"]
    assert [(row["status"], dict(row["dropped"])) for row in lake.closing()] == [("degraded", {"annotation": "2"})] * 3
    assert len(lake.rows("loss")) == 3
