"""Starts and watches the sidecar; the only module of the sidecar that the training process loads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from tracelake.recorder.log import once
from tracelake.recorder.spool import LOG

LAUNCH_FOLDER = "TRACELAKE_LAUNCH_FOLDER"
"""Variable by which tracelake-record says where sidecars register, so that it waits for them."""
_MOST_STARTS = 4
_BACK_OFF_SECONDS = 2.0
# Without the script's folder on the path: a user's queue.py or types.py there must not become ours.
_PROGRAM = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; "
    # Arrow would import them where they are installed, for nothing that is used here: half a second and 60 MB.
    "sys.modules.update(pandas=None, numpy=None); "
    "from tracelake.recorder.sidecar.run import main; main(sys.argv[1])"
)


def registration(launch_folder: str, sidecar_id: int) -> Path:
    return Path(launch_folder) / f"{sidecar_id}.sidecar"


def tell_job(launch_folder: str, job_id: str, output: str) -> None:
    """Say to tracelake-record that a job's events arrived, and where."""
    (Path(launch_folder) / f"{quote(job_id, safe='')}.job").write_text(output)


def delivered_jobs(launch_folder: Path) -> list[tuple[str, str]]:
    """(job id, output) of what was delivered below a launcher."""
    return [(unquote(file.stem), file.read_text()) for file in launch_folder.glob("*.job")]


class Sidecar:
    """The process (or, where none may be started, the thread) that turns a spool into segments."""

    def __init__(self, folder: Path, *, in_process: bool) -> None:
        self._folder, self._in_process = folder, in_process
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._starts = 0
        self._next_start = 0.0

    def start(self) -> None:
        """Start it; where no process can be started it becomes a thread. Raises nothing."""
        self._starts += 1
        self._next_start = time.monotonic() + _BACK_OFF_SECONDS * self._starts
        if self._in_process or not sys.executable:
            self._start_thread()
            return
        try:
            self._process = self._spawn()
        except OSError as error:
            once("sidecar", "no sidecar process can be started (%s); its work is done in a thread", error)
            self._start_thread()

    def _spawn(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TRACELAKE_ENABLED": "0"}
        # A library preloaded for the training (a memory checker, an allocator) is not meant for us.
        environment.pop("LD_PRELOAD", None)
        with (self._folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(self._folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                # Ctrl-C at the terminal goes to the training; the sidecar finishes its work.
                start_new_session=True,
            )
        if launch_folder := os.environ.get(LAUNCH_FOLDER):
            # By us, before anyone can miss it; the sidecar removes it.
            with suppress(OSError):
                registration(launch_folder, process.pid).write_text(str(process.pid))
        return process

    def _start_thread(self) -> None:
        from tracelake.recorder.sidecar.run import run, warm_up

        # Now, since libraries refuse to be imported once the interpreter ends, which may be soon.
        warm_up()

        self._thread = threading.Thread(target=run, args=(self._folder,), name="tracelake-sidecar", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Start it again where it died, a few times and not at once."""
        process = self._process
        if process is None or process.poll() is None or time.monotonic() < self._next_start:
            return
        self._process = None
        if self._starts >= _MOST_STARTS:
            once("sidecar", "the sidecar died %d times, see %s; events stay in the spool and can be recovered with"
                 " tracelake-record --recover", self._starts, self._folder / LOG)  # fmt: skip
            return
        self.start()

    def abandon(self) -> None:
        """In a forked child: the process is the parent's to wait for."""
        if self._process is not None:
            self._process.returncode = 0

    def finish(self, wait_seconds: float) -> None:
        """Wait for the rest of its work, within a bound."""
        if self._process is not None:
            try:
                self._process.wait(wait_seconds)
            except subprocess.TimeoutExpired:
                # Left to run: it needs nobody, and Popen would complain about a child not waited for.
                self._process.returncode = 0
        if self._thread is not None:
            self._thread.join(wait_seconds)
