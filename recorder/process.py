"""The recording of this process: at most one, begun on request, ended with the process, gone in a forked child."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tracelake.recorder import annotation
from tracelake.recorder.log import once
from tracelake.recorder.recording import Recording
from tracelake.recorder.settings import BadSetting, Settings

if TYPE_CHECKING:
    from tracelake.recorder.identity import Identity

_current: Recording | None = None
_lock = threading.Lock()


def current() -> Recording | None:
    return _current


def load(settings: Settings, identity: Identity, *, defer_capture: bool = False) -> Recording:
    """The recording of this process, made now if there is none. Raises BadSetting where there can be none."""
    global _current
    with _lock:
        if _current is None:
            if problem := check_output(settings):
                if settings.strict:
                    raise BadSetting(problem)
                once("output", "%s", problem)
            _current = Recording(settings, identity, defer_capture=defer_capture)
            _hook_exit(_current)
        return _current


def unload() -> None:
    """End the recording of this process, if there is one; a later `load` makes another."""
    global _current
    with _lock:
        recording, _current = _current, None
    if recording is not None:
        recording.finish()


def _finish(recording: Recording) -> None:
    try:
        recording.finish()
    except Exception as error:  # noqa: BLE001 -- nothing of ours may show in the place of the job's own end
        once("finish", "the end of the recording failed, the sidecar does what it can: %s", error)


def _hook_exit(recording: Recording) -> None:
    atexit.register(_finish, recording)
    inner = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        recording.note_error(error)
        inner(kind, error, traceback)

    sys.excepthook = note


def _in_child() -> None:
    global _current, _lock
    _lock = threading.Lock()
    annotation.forget()
    if _current is not None:
        atexit.unregister(_finish)
        with contextlib.suppress(OSError):
            _current.abandon()
        _current = None


os.register_at_fork(after_in_child=_in_child)


def check_output(settings: Settings) -> str | None:
    """Why nothing can be delivered to the output as things are, with the remedy; None where it can."""
    if settings.output.startswith("s3://"):
        found = importlib.util.find_spec("boto3")
        return None if found else f"output {settings.output} needs boto3: pip install 'tracelake[s3]'"
    folder = Path(settings.output).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return (
            f"output {folder} cannot be written ({error.strerror}); events wait in the spool, or set TRACELAKE_OUTPUT"
        )
