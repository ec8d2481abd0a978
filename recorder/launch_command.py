"""Runs a command as if nobody stood in between: its signals, its orphans, and its way of ending."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tracelake.recorder.log import LOG
from tracelake.recorder.sidecar.parent import start_ticks

EXIT_FILE = "exit.json"
SIDECAR_SUFFIX = ".sidecar"
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_OTHERS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGTSTP)
_WATCHED = {*_ENDING, *_OTHERS, signal.SIGCHLD}
# si_code of a signal that the terminal sent to the whole foreground group: the command has it already.
_FROM_KERNEL = 0x80
_SET_CHILD_SUBREAPER = 36
_TURN_SECONDS = 0.1
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


class Ended(NamedTuple):
    """How the command ended: its exit code, or the signal that killed it; and what the launcher itself was sent."""

    exit_code: int | None
    signal: signal.Signals | None
    forwarded: tuple[str, ...]

    def write(self, folder: Path) -> None:
        """Tell the sidecars, in exit.json. Raises OSError."""
        end = {
            "exit_code": self.exit_code,
            "signal": self.signal.name if self.signal else None,
            "forwarded": list(self.forwarded),
            "ended_ns": time.time_ns(),
        }
        aside = folder / f".{EXIT_FILE}.{os.getpid()}"
        aside.write_text(json.dumps(end))
        aside.replace(folder / EXIT_FILE)


class Launcher:
    """Runs one command, below which other processes come and go."""

    def __init__(self) -> None:
        self._forwarded: list[str] = []
        # Blocked, signals wait to be taken one by one: no handler can interrupt what is being done.
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        # Ignored, as some parents leave it, nobody would hear how the command ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _adopt_orphans()

    def run(self, command: Sequence[str], environ: Mapping[str, str]) -> Ended:
        """Start the command and wait for its end. One that cannot be started ends with 127 or 126, as in a shell."""
        try:
            # Python ignores these two; the command must not.
            child = os.posix_spawnp(command[0], list(command), dict(environ), setsigmask=self._mask,
                                    setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])  # fmt: skip
        except OSError as error:
            sys.stderr.write(f"tracelake-record: {command[0]}: {error.strerror}\n")
            is_missing = isinstance(error, FileNotFoundError)
            return Ended(_NOT_FOUND if is_missing else _NOT_EXECUTABLE, None, ())
        status = None
        while status is None:
            info = signal.sigwaitinfo(_WATCHED)
            if info.si_signo != signal.SIGCHLD:
                self._pass_on(child, info)
            status = _reap(child)
        code = os.waitstatus_to_exitcode(status)
        forwarded = tuple(dict.fromkeys(self._forwarded))
        return Ended(code, None, forwarded) if code >= 0 else Ended(None, _signal(-code), forwarded)

    def _pass_on(self, child: int, info: Any) -> None:
        number = signal.Signals(info.si_signo)
        if number in _ENDING:
            self._forwarded.append(number.name)
        if info.si_code != _FROM_KERNEL:
            _send(child, number)
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)

    def wait_for_sidecars(self, folder: Path, wait_seconds: float) -> bool:
        """Wait until those registered in the folder are done; False where time or the user's patience ends first."""
        deadline = time.monotonic() + wait_seconds
        while alive := living_sidecars(folder):
            if time.monotonic() >= deadline:
                LOG.warning("%d sidecars still deliver after %.0f s; what they leave can be recovered with"
                            " tracelake-record --recover", len(alive), wait_seconds)  # fmt: skip
                return False
            info = signal.sigtimedwait(_WATCHED, _TURN_SECONDS)
            _reap(0)
            if info is not None and info.si_signo in _ENDING:
                return False
        return True

    def end_like(self, ended: Ended) -> int:
        """The exit code to end with; where the command was killed, this process is, by the same signal."""
        if ended.signal is None:
            return ended.exit_code or 0
        if os.getpid() != 1:
            # One dump of memory, the command's, is enough.
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
            if ended.signal not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(ended.signal, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [ended.signal])
            sys.stdout.flush()
            os.kill(os.getpid(), ended.signal)
        return 128 + ended.signal


def living_sidecars(folder: Path) -> list[int]:
    """Process ids of the sidecars that have registered and not finished. Dead ones do not count."""
    found = []
    for file in folder.glob(f"*{SIDECAR_SUFFIX}"):
        try:
            process_id = int(file.read_text())
        except (OSError, ValueError):
            # It has just finished, or has not written yet and will have by the next look.
            continue
        if start_ticks(process_id) is not None:
            found.append(process_id)
    return found


def remove(folder: Path) -> None:
    """Remove the launch folder, as far as that is possible."""
    shutil.rmtree(folder, ignore_errors=True)


def _signal(number: int) -> signal.Signals:
    try:
        return signal.Signals(number)
    except ValueError:
        # A real-time signal in between has no name of its own.
        return signal.SIGKILL


def _send(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        return


def _reap(child: int) -> int | None:
    """Collect every dead child and orphan; the status of `child`, if it is one of them."""
    status = None
    while True:
        try:
            found, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if found == 0:
            return status
        if found == child:
            status = how


def _adopt_orphans() -> None:
    """Sidecars and workers whose parents died come to us, so that none stays as a zombie. Process 1 has them anyway."""
    try:
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        return
