"""Records this process from its start, as tracelake-record wants it."""

from __future__ import annotations

from tracelake.recorder import process
from tracelake.recorder.api import Profiler
from tracelake.recorder.hooks import find_steps


def begin() -> None:
    """Sample from now on, and open windows as the settings say. Raises BadSetting where they are strict."""
    profiler = Profiler.instance()
    profiler.defer_capture = True
    profiler.configure()
    profiler.start_profiling()
    recording = process.current()
    if recording is not None and recording.settings.step_hooks:
        find_steps()
