"""Foreign traces into raw segments: several files at once, each in a process of its own."""

from __future__ import annotations

import glob
import multiprocessing as mp
import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tracelake.recorder.importers.s3_trace import S3Trace, find_in_bucket
from tracelake.recorder.importers.trace_file import Imported, ImportFailed, ImportOptions, import_file
from tracelake.schemas.bucket import SCHEME, Connection, S3Options
from tracelake.schemas.manifest import BadManifest
from tracelake.schemas.storage import Storage, StorageFailed

SUFFIXES = (".json", ".json.gz")
Trace = Path | S3Trace
"""A trace file, here or in a bucket."""
Outcome = Imported | tuple[str, str]
"""What became of a file: imported, or its path and why not."""

__all__ = ["ImportFailed", "ImportOptions", "Imported", "Outcome", "Trace", "find", "import_all", "import_one"]


def find(paths: Sequence[str], s3: S3Options = S3Options()) -> list[Trace]:  # noqa: B008 -- it is frozen
    """The trace files that paths, folders and globs name, here or at s3://, each once, in order.

    Raises ImportFailed where one names nothing, or a folder holds no trace; StorageFailed.
    """
    found: dict[Trace, None] = {}
    connection = Connection(s3)
    for given in paths:
        if given.startswith(SCHEME):
            found.update(dict.fromkeys(find_in_bucket(given, connection, SUFFIXES)))
            continue
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


def import_one(trace: Trace, lake: Path | Storage, options: ImportOptions) -> Outcome:
    """`import_file`, its failure as a value: one bad file leaves the others alone."""
    try:
        if isinstance(trace, Path):
            return import_file(trace, lake, options)
        with trace.fetched() as path:
            return import_file(path, lake, options, str(trace))
    except (ImportFailed, BadManifest, StorageFailed) as error:
        return str(trace), str(error)
    except OSError as error:
        return str(trace), f"{trace}: {error.strerror or error}"


def import_all(
    files: Sequence[Trace],
    lake: Path | Storage,
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
    running: dict[Any, tuple[Trace, Any]] = {}
    done = 0
    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 2):
                path = waiting.pop()
                receiver, sender = context.Pipe(duplex=False)
                given = (sender, path, lake, options, dict(os.environ))
                worker = context.Process(target=_work, args=given, daemon=True)
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


def _work(sender: Any, path: Trace, lake: Path | Storage, options: ImportOptions, environment: dict[str, str]) -> None:
    # The fork server keeps the environment of this program's first import: credentials may have come since.
    os.environ.clear()
    os.environ.update(environment)
    sender.send(import_one(path, lake, options))
    sender.close()


def _received(receiver: Any, path: Trace, worker: Any) -> Outcome:
    try:
        outcome: Outcome = receiver.recv()
    except EOFError:
        worker.join()
        return str(path), f"{path}: the process that read it died (exit code {worker.exitcode}); import it again"
    finally:
        receiver.close()
    worker.join()
    return outcome
