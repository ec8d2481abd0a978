"""What a training script says. The names are those that SageMaker Profiler's users know, and a shorter one.

from tracelake.recorder import record, annotate

with record(output="s3://bucket/lake", tags={"team": "vision"}):
    for step, batch in enumerate(loader):
        with annotate(f"step_{step}"):
            ...
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tracelake.recorder import facts, process
from tracelake.recorder.annotation import annotate, annotation_begin, annotation_end
from tracelake.recorder.identity import find
from tracelake.recorder.log import LOG, once
from tracelake.recorder.recording import Recording
from tracelake.recorder.settings import BadSetting, Settings, from_sagemaker, load

__all__ = ["Config", "Profiler", "annotate", "annotation_begin", "annotation_end", "record"]


class Config:
    """Settings of a recording: SageMaker's `profiler` mapping, and any of ours as an attribute or argument."""

    def __init__(self, **settings: Any) -> None:
        self.profiler: Mapping[str, str] = {}
        self.__dict__.update(settings)

    def given(self) -> dict[str, Any]:
        own = {name: value for name, value in self.__dict__.items() if name != "profiler"}
        return {**from_sagemaker(self.profiler), **own}


class Profiler:
    """The recorder of this process.

        profiler = Profiler.instance()
        config = Config()
        config.profiler = {"EnableCuda": "1"}
        profiler.configure(config)
        profiler.start_profiling()
        ...
        profiler.stop_profiling()

    Nothing raises (unless the settings say `strict`): what does not work is said once, and the job goes on.
    """

    _instance: Profiler | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._given: dict[str, Any] = {}
        self.defer_capture = False
        """Whether GPU events wait until the process starts CUDA; tracelake-record cannot know who will."""

    @classmethod
    def instance(cls) -> Profiler:
        with cls._lock:
            if cls._instance is None:
                cls._instance = cls()
            return cls._instance

    def configure(self, config: Config | Mapping[str, Any] | None = None, **settings: Any) -> None:
        """Set what is given and begin to sample; windows open later. Raises BadSetting if strict."""
        given = config.given() if isinstance(config, Config) else dict(config or {})
        given = {**given, **settings}
        running = process.current()
        if running is not None and _differ(given, running.settings):
            once("settings", "the recording of this process has its settings already; those given now change nothing")
        self._given = given
        self._load()

    def start_profiling(self) -> None:
        """Open a window: from here on events and annotations are recorded."""
        recording = self._load()
        if recording is not None:
            _safely(recording.ask)

    def stop_profiling(self) -> None:
        """Close the window. Returns within two seconds; what is left is done by the sidecar."""
        recording = process.current()
        if recording is not None:
            _safely(recording.dismiss)

    def tag(self, **tags: str) -> None:
        """Add tags to the job, for instance the run id of an experiment tracker."""
        facts.tag({key: str(value) for key, value in tags.items()})

    def _load(self) -> Recording | None:
        running = process.current()
        if running is not None:
            return running
        settings, warnings = load(self._given)
        try:
            return self._begin(settings, warnings) if settings.enabled else None
        except Exception as error:
            if settings.strict:
                raise
            kind = "" if isinstance(error, BadSetting) else f"{type(error).__name__}: "
            once("begin", "nothing is recorded: %s%s", kind, error)
            return None

    def _begin(self, settings: Settings, warnings: list[str]) -> Recording:
        identity = find(settings)
        for warning in (*warnings, *identity.warnings):
            LOG.warning("%s", warning)
        return process.load(settings, identity, defer_capture=self.defer_capture)


class record:
    """`with record(output=…, windows=…):` or `@record()`: one window around the block; settings by keyword."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def __enter__(self) -> Profiler:
        profiler = Profiler.instance()
        profiler.configure(self._settings)
        profiler.start_profiling()
        return profiler

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        Profiler.instance().stop_profiling()


def _differ(given: Mapping[str, Any], used: Settings) -> bool:
    asked, _ = load(given, environ={}, strict=False)
    return any(getattr(asked, name) != getattr(used, name) for name in given if hasattr(asked, name))


def _safely(action: Any) -> None:
    recording = process.current()
    try:
        action()
    except Exception as error:
        if recording is not None and recording.settings.strict:
            raise
        once(f"{action.__name__} {type(error).__name__}", "recording suffers: %s", error)


def _in_child() -> None:
    Profiler._lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)
