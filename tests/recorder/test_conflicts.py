from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest
from frameworks import framework_python, run_script, torch_python

from tracelake.recorder.capture.conflicts import Conflicts


class Capture:
    """Stands in for a capture: writes down what it is told."""

    def __init__(self, *, refuses: int = 0, name: str = "cupti") -> None:
        self.calls: list[str] = []
        self.refuses = refuses
        self.name = name

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> bool:
        self.refuses -= 1
        self.calls.append("resume" if self.refuses < 0 else "refused")
        return self.refuses < 0


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The module where TensorFlow keeps its running profiler."""
    module = SimpleNamespace(_profiler=None)
    monkeypatch.setitem(sys.modules, "tensorflow.python.profiler.profiler_v2", module)  # type: ignore[arg-type]
    return module


def test_nothing_happens_while_nobody_else_profiles() -> None:
    capture, conflicts = Capture(), Conflicts()
    assert [conflicts.poll(capture), conflicts.poll(capture), conflicts.finish(capture)] == [None] * 3
    assert capture.calls == []


def test_a_gap_is_told_once_when_it_has_ended(tensorflow: SimpleNamespace) -> None:
    capture, conflicts = Capture(), Conflicts()
    before_ns = time.monotonic_ns()
    tensorflow._profiler = object()
    assert conflicts.poll(capture) is None
    assert conflicts.poll(capture) is None
    tensorflow._profiler = None
    gap = conflicts.poll(capture)
    assert gap is not None
    assert before_ns <= gap["start_ns"] <= gap["end_ns"] <= time.monotonic_ns()
    assert gap["reason"] == "another_profiler"
    assert conflicts.poll(capture) is None
    assert capture.calls == ["pause", "resume"]


def test_a_gap_lasts_until_the_tool_comes_back(tensorflow: SimpleNamespace) -> None:
    capture, conflicts = Capture(refuses=2), Conflicts()
    tensorflow._profiler = object()
    conflicts.poll(capture)
    tensorflow._profiler = None
    assert [conflicts.poll(capture) is not None for _ in range(4)] == [False, False, True, False]
    assert capture.calls == ["pause", "refused", "refused", "resume"]


def test_an_open_gap_is_told_at_the_end_of_the_window(tensorflow: SimpleNamespace) -> None:
    capture, conflicts = Capture(), Conflicts()
    tensorflow._profiler = object()
    conflicts.poll(capture)
    gap = conflicts.finish(capture)
    assert gap is not None
    assert gap["reason"] == "another_profiler"
    assert conflicts.finish(capture) is None


def test_a_window_cut_short_by_its_capture_is_told_at_the_end() -> None:
    left = {"start_ns": 1, "end_ns": 2, "reason": "window_too_long"}
    capture = Capture()
    capture.take_gap = lambda: left  # type: ignore[attr-defined]
    assert Conflicts().finish(capture) == left


def test_a_capture_that_fails_breaks_nothing(tensorflow: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    capture, conflicts = Capture(), Conflicts()
    capture.pause = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    tensorflow._profiler = object()
    assert conflicts.poll(capture) is None
    assert "could not be paused" in caplog.text


# PyTorch's profiler for real ------------------------------------------------------------------------------------------

_TORCH = """
import json, torch
from torch.profiler import profile, schedule, ProfilerActivity
from tracelake.recorder.capture.conflicts import Conflicts
class Capture:
    name = "cupti"
    def __init__(self): self.calls = []
    def pause(self): self.calls.append("pause:" + str(torch.autograd._profiler_enabled()))
    def resume(self): self.calls.append("resume:" + str(torch.autograd._profiler_enabled()))
capture, conflicts, gaps = Capture(), Conflicts(), []
def poll():
    gap = conflicts.poll(capture)
    if gap: gaps.append(gap["end_ns"] >= gap["start_ns"])
def report(): print(json.dumps([capture.calls, gaps]))
poll()
work = lambda: torch.ones(4, 4) @ torch.ones(4, 4)
"""
_TORCHES = pytest.mark.parametrize("environment", ["torch", "modern"])


def _run(environment: str, script: str) -> tuple[list[str], list[bool]]:
    python = torch_python() if environment == "torch" else framework_python("torch", environment)
    calls, gaps = run_script(python, _TORCH + script)
    return calls, gaps


@_TORCHES
def test_a_session_between_two_polls_is_seen_and_paused_before_it_starts(environment: str) -> None:
    script = """
with profile(activities=[ProfilerActivity.CPU]) as profiler: work()
assert len(profiler.key_averages()) > 0
poll(); poll(); report()
"""
    assert _run(environment, script) == (["pause:False", "resume:False"], [True])


@_TORCHES
def test_it_stays_paused_while_the_session_runs(environment: str) -> None:
    script = """
profiler = profile(activities=[ProfilerActivity.CPU]); profiler.start(); work()
poll(); poll(); profiler.stop(); poll(); report()
"""
    assert _run(environment, script) == (["pause:False", "resume:False"], [True])


@_TORCHES
def test_a_schedule_pauses_from_its_warmup_to_its_end(environment: str) -> None:
    script = """
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=2, warmup=1, active=1, repeat=1)) as profiler:
    for step in range(6):
        work(); profiler.step(); poll(); capture.calls.append(step)
report()
"""
    calls, gaps = _run(environment, script)
    assert calls == [0, "pause:False", 1, 2, "resume:False", 3, 4, 5]
    assert gaps == [True]


@_TORCHES
def test_the_older_face_of_the_profiler_is_seen_too(environment: str) -> None:
    script = "with torch.autograd.profiler.profile(): work()\npoll(); report()"
    assert _run(environment, script) == (["pause:False", "resume:False"], [True])


@_TORCHES
def test_a_profiler_that_fails_to_start_or_is_thrown_away_does_not_count(environment: str) -> None:
    script = """
import gc
prepared = torch.autograd.profiler.profile(); prepared._prepare_trace(); del prepared; gc.collect()
poll(); report()
"""
    calls, gaps = _run(environment, script)
    assert calls == ["pause:False", "resume:False"]
    assert gaps == [True]


def test_a_window_that_is_not_open_is_left_alone() -> None:
    script = """
conflicts.finish(capture)
with profile(activities=[ProfilerActivity.CPU]): work()
report()
"""
    assert _run("torch", script) == ([], [])


def test_a_window_that_opens_during_a_session_is_paused_at_once() -> None:
    script = """
conflicts.finish(capture)
with profile(activities=[ProfilerActivity.CPU]):
    conflicts.watch(capture)
poll(); report()
"""
    assert _run("torch", script)[0] == ["pause:True", "resume:False"]


def test_tensorflows_profiler_is_seen() -> None:
    script = """
import json, tempfile, tensorflow as tf
from tracelake.recorder.capture.conflicts import Conflicts
class Capture:
    name = "cupti"
    def __init__(self): self.calls = []
    def pause(self): self.calls.append("pause")
    def resume(self): self.calls.append("resume")
capture, conflicts = Capture(), Conflicts()
conflicts.poll(capture)
tf.profiler.experimental.start(tempfile.mkdtemp())
tf.ones(3) + 1
conflicts.poll(capture)
tf.profiler.experimental.stop()
gap = conflicts.poll(capture)
print(json.dumps([capture.calls, gap["reason"]]))
"""
    assert run_script(framework_python("tensorflow", "tf"), script) == [["pause", "resume"], "another_profiler"]
