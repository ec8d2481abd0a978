"""The sidecar process, started by the training process; and the recovery of spools left behind."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from tracelake.recorder.sidecar.loop import Loop
from tracelake.recorder.sidecar.start import LAUNCH_FOLDER, registration, tell_job
from tracelake.recorder.spool import PROCESS

LOG = logging.getLogger("tracelake.recorder.sidecar")
NICE = 10


def main(folder: str) -> None:
    """Follow a spool until its process has ended and all is delivered."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with suppress(OSError):
        os.nice(NICE)
    try:
        run(Path(folder))
    finally:
        if launch_folder := os.environ.get(LAUNCH_FOLDER):
            registration(launch_folder, os.getpid()).unlink(missing_ok=True)


def warm_up() -> None:
    """Let Arrow import what it imports when it first sees Python values."""
    pa.array([0])


def run(folder: Path, *, sample: bool = True) -> bool:
    """Do a sidecar's work; whether everything was delivered (the spool is then gone). One at a time per spool."""
    with _claimed(folder) as is_ours:
        if not is_ours:
            return False
        loop = Loop(folder, sample=sample)
        try:
            delivered = loop.run()
        except Exception:
            LOG.exception("the sidecar failed; the spool %s is kept", folder)
            raise
        if delivered:
            if loop.process["launch_folder"]:
                with suppress(OSError):
                    tell_job(loop.process["launch_folder"], loop.about["job_id"], loop.settings.output)
            shutil.rmtree(folder, ignore_errors=True)
        return delivered


def recover(root: Path) -> int:
    """Turn every spool below `root` (or `root` itself) that nobody works on into segments; how many were delivered."""
    folders = [path.parent for path in sorted(root.rglob(PROCESS))]
    return sum(run(folder, sample=False) for folder in folders)


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Whether this spool is ours alone, while the block runs."""
    fd = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(fd)
