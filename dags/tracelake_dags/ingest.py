"""The inbox: foreign traces, a folder for each job, into the lake's raw data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tracelake_dags.lake import CommandFailed, Lake, Running, Unconfigured

DONE = ".imported"
_QUIET_SECONDS = 300
"""A file that was written to since is left for the next night: it may not be whole."""
_AT_ONCE = 200


def ingest(lake: Lake, say: Callable[[str], None]) -> int:
    """Import what lies in the inbox, and move it to `.imported`; gives the number of files.

    A file that is refused stays. Raises CommandFailed that names it, after all others; Unconfigured without a folder.
    """
    if not lake.inbox:
        say("no inbox in the connection: raw data comes from the recorders, and `process` says how much is new")
        return 0
    inbox = Path(lake.inbox)
    if not inbox.is_dir():
        raise Unconfigured(f"connection tracelake: inbox {inbox} is no folder that this worker sees")
    count, refused = 0, []
    for job, files in _waiting(inbox):
        for at in range(0, len(files), _AT_ONCE):
            count += _take(lake, inbox, job, files[at : at + _AT_ONCE], refused, say)
    say(f"{count} files imported")
    if refused:
        raise CommandFailed(f"{len(refused)} files of the inbox were refused, mend or remove them: {refused[0]}")
    return count


def _waiting(inbox: Path) -> Iterator[tuple[str, list[Path]]]:
    before = time.time() - _QUIET_SECONDS
    for folder in sorted(each for each in inbox.iterdir() if each.is_dir() and not each.name.startswith(".")):
        found = sorted(path for path in folder.rglob("*") if path.name.endswith((".json", ".json.gz")))
        if files := [path for path in found if path.is_file() and path.stat().st_mtime < before]:
            yield folder.name, files


def _take(lake: Lake, inbox: Path, job: str, files: list[Path], refused: list[str], say: Callable[[str], None]) -> int:
    """Import files of a job, one by one where together they fail: only the bad ones stay."""
    argv = lake.argv(["import", f"--job={job}"], [str(file) for file in files], spark=False)
    try:
        Running(argv, lake.env).finish(say)
    except CommandFailed as error:
        if len(files) == 1:
            refused.append(f"{files[0]}: {error}")
            return 0
        return sum(_take(lake, inbox, job, [file], refused, say) for file in files)
    for file in files:
        place = inbox / DONE / file.relative_to(inbox)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)
    return len(files)
