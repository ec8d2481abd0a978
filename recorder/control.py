"""Starting and stopping a window of a running job from outside: one word in a file of its spool."""

from __future__ import annotations

import os
from pathlib import Path

from tracelake.recorder.spool import CONTROL

COMMANDS = ("start", "stop")


def give(folder: Path, command: str) -> None:
    """Write a command: `start`, `stop`, or `start SECONDS`. Raises ValueError for anything else."""
    words = command.split()
    is_known = words[:1] in (["start"], ["stop"]) and (len(words) == 1 or (words[0] == "start" and len(words) == 2))
    if not is_known or (len(words) == 2 and not _is_positive(words[1])):
        raise ValueError(f"{command!r}: write start, stop, or start SECONDS")
    aside = folder / f".{CONTROL}.{os.getpid()}"
    aside.write_text(command)
    aside.replace(folder / CONTROL)


def take(folder: Path) -> str | None:
    """The command that waits, removed from the folder."""
    path = folder / CONTROL
    try:
        command = path.read_text()
        path.unlink()
    except FileNotFoundError:
        return None
    return command.strip()


def _is_positive(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False
