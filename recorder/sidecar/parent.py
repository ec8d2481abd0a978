"""Whether the training process still lives, and how it ended."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

LAUNCHER_SECONDS = 6.0
"""How long after a process's death its launcher's word is waited for; torchrun may look only every five seconds."""
TEARDOWN_SECONDS = 60.0
"""How long a process may take to die once it has said that it ends."""


class Parent:
    """The process whose spool this is, by its id and the moment it started: ids are used again."""

    def __init__(self, process_id: int, start_ticks: int | None) -> None:
        self._id, self._start_ticks = process_id, start_ticks
        self._fd = self._open()

    def _open(self) -> int | None:
        if not self._is_same():
            return None
        try:
            return os.pidfd_open(self._id)
        except OSError:
            return None

    def is_alive(self) -> bool:
        if self._fd is None:
            return self._is_same()
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return not poll.poll(0)

    def _is_same(self) -> bool:
        return self._start_ticks is not None and start_ticks(self._id) == self._start_ticks


def start_ticks(process_id: int) -> int | None:
    """When a process started, in clock ticks since boot; None where there is none or it is dead."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return None
    after_name = text.rpartition(")")[2].split()
    return None if after_name[0] in "ZX" else int(after_name[19])


def launcher_verdict(folder: str | None, parent: Parent) -> tuple[str, int | None] | None:
    """(state, exit code) as tracelake-record saw its command end; None where it says nothing in time.

    The launcher may still be running other ranks: a process that died is then judged by what itself said.
    """
    if not folder:
        return None
    path = Path(folder) / "exit.json"
    deadline = time.monotonic() + TEARDOWN_SECONDS
    is_dead = False
    while not path.exists():
        if not is_dead and not parent.is_alive():
            is_dead, deadline = True, time.monotonic() + LAUNCHER_SECONDS
        if time.monotonic() > deadline or not Path(folder).is_dir():
            return None
        time.sleep(0.05)
    return _judged(json.loads(path.read_text()))


def _judged(end: dict[str, Any]) -> tuple[str, int | None]:
    if end["signal"]:
        code = -getattr(signal, end["signal"], 0)
        return ("stopped" if end["signal"] in end["forwarded"] or end["signal"] == "SIGINT" else "failed"), code
    if end["exit_code"] == 0:
        return "completed", 0
    # Told to stop, a script may well leave with a code of its own.
    return ("stopped" if end["forwarded"] else "failed"), end["exit_code"]
