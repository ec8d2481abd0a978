"""Foreign traces into raw segments: several files at once, each in a process of its own."""

from __future__ import annotations

import glob
import multiprocessing as mp
import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tracelake.recorder.importers.trace_file import Imported, ImportFailed, ImportOptions, import_file
from tracelake.schemas.manifest import BadManifest

SUFFIXES = (".json", ".json.gz")
Outcome = Imported | tuple[str, str]
"""What became of a file: imported, or its path and why not."""

__all__ = ["ImportFailed", "ImportOptions", "Imported", "Outcome", "find", "import_all", "import_one"]


def find(paths: Sequence[str]) -> list[Path]:
    """The trace files that paths, folders and globs name, each once, in order.

    Raises ImportFailed where one names nothing, or a folder holds no trace.
    """
    found: dict[Path, None] = {}
    for given in paths:
        # glob, not Path.glob: patterns may be absolute and hold **.
        matches = sorted(glob.glob(given, recursive=True)) if glob.has_magic(given) else [given]  # noqa: PTH207
        if not matches:
            raise ImportFailed(f"{given}: no file matches")
        for match in map(Path, matches):
            if match.is_dir():
                inside = sorted(p for p in match.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
                if not inside:
                    raise ImportFailed(f"{match}: the folder holds no {' or '.join(SUFFIXES)} file")
                found.update(dict.fromkeys(inside))
            elif match.is_file():
                found[match] = None
            else:
                raise ImportFailed(f"{match}: no such file or folder")
    return list(found)


def import_one(path: Path, lake: Path, options: ImportOptions) -> Outcome:
    """`import_file`, its failure as a value: one bad file leaves the others alone."""
    try:
        return import_file(path, lake, options)
    except (ImportFailed, BadManifest) as error:
        return str(path), str(error)
    except OSError as error:
        return str(path), f"{path}: {error.strerror or error}"


def import_all(
    files: Sequence[Path],
    lake: Path,
    options: ImportOptions,
    progress: Callable[[str, float], None] = lambda now, share: None,
) -> Iterator[Outcome]:
    """Outcomes as they come. One file is read here; of several, each in its own process, one per core at a time.

    A process that dies takes only its file with it, and says so.
    """
    if len(files) == 1:
        yield import_one(files[0], lake, options)
        return
    context = mp.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    waiting = list(reversed(files))
    running: dict[Any, tuple[Path, Any]] = {}
    done = 0
    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 2):
                path = waiting.pop()
                receiver, sender = context.Pipe(duplex=False)
                worker = context.Process(target=_work, args=(sender, path, lake, options), daemon=True)
                worker.start()
                sender.close()
                running[receiver] = (path, worker)
            for ready in wait(list(running)):
                path, worker = running.pop(ready)
                yield _received(ready, path, worker)
                done += 1
                progress(path.name, done / len(files))
    finally:
        for _, worker in running.values():
            worker.terminate()


def _work(sender: Any, path: Path, lake: Path, options: ImportOptions) -> None:
    sender.send(import_one(path, lake, options))
    sender.close()


def _received(receiver: Any, path: Path, worker: Any) -> Outcome:
    try:
        outcome: Outcome = receiver.recv()
    except EOFError:
        worker.join()
        return str(path), f"{path}: the process that read it died (exit code {worker.exitcode}); import it again"
    finally:
        receiver.close()
    worker.join()
    return outcome
