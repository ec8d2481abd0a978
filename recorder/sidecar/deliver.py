"""Brings segments from the outbox to the lake: a folder, or S3. What fails stays and is tried again."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tracelake.recorder.settings import Settings
from tracelake.schemas.manifest import RAW_VERSION

LOG = logging.getLogger("tracelake.recorder.sidecar")


class Target(Protocol):
    """Where files go, by their path below the lake's raw folder."""

    def put(self, file: Path, path: str) -> None:
        """Bring one file there, whole or not at all. Raises DeliveryFailed."""


class DeliveryFailed(Exception):
    """A file could not be brought; the text says what to do."""


class Folder:
    """A folder that this machine sees."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, file: Path, path: str) -> None:
        final = self._root / path
        aside = final.with_name(f".{final.name}.{os.getpid()}.tmp")
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, aside)
            aside.replace(final)
        except OSError as error:
            with suppress(OSError):
                aside.unlink()
            raise DeliveryFailed(f"{final} cannot be written: {error}; free space or give another output") from error


TURN_SECONDS, MOST_PAUSE_SECONDS = 0.25, 30.0
LAST_SECONDS = 110.0
"""How long delivery is tried once the process has ended: a spot instance leaves two minutes."""


class Delivery:
    """Empties an outbox in a thread of its own, segments before the manifests that list them."""

    def __init__(self, outbox: Path, target: Target) -> None:
        self._outbox, self._target = outbox, target
        self._said = ""
        self._wake, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="deliver", daemon=True)
        # Held while a manifest is written, and while one that arrived is removed: a newer one must not go with it.
        self.lock = threading.Lock()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There may be something new."""
        self._wake.set()

    def _run(self) -> None:
        pause = TURN_SECONDS
        while not self._ended.is_set():
            self._wake.wait(TURN_SECONDS)
            self._wake.clear()
            if self.push():
                pause = TURN_SECONDS
            else:
                pause = min(MOST_PAUSE_SECONDS, pause * 2)
                self._ended.wait(pause)

    def finish(self, last_seconds: float = LAST_SECONDS) -> bool:
        """Bring the rest, within a bound; whether all arrived."""
        self._ended.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(last_seconds)
        deadline, pause = time.monotonic() + last_seconds, 0.2
        while not self.push():
            if time.monotonic() + pause > deadline:
                LOG.error("not delivered: %s; run tracelake-record --recover on it later", self._outbox)
                return False
            time.sleep(pause)
            pause = min(10.0, pause * 2)
        return True

    def push(self) -> bool:
        """Bring what waits; whether all of it arrived. A failure is logged when it is a new one."""
        for file in self._waiting():
            written = file.stat()
            try:
                self._target.put(file, str(file.relative_to(self._outbox)))
            except DeliveryFailed as error:
                self._say(str(error))
                return False
            with self.lock:
                if _is_same(file.stat(), written):
                    file.unlink()
        if self._said:
            LOG.warning("delivery works again")
            self._said = ""
        return True

    def _say(self, failure: str) -> None:
        if failure != self._said:
            LOG.warning("%s; kept in %s and tried again", failure, self._outbox)
            self._said = failure

    def _waiting(self) -> Iterator[Path]:
        """Files that are whole: what is still being written has a dot in front.

        Manifests are listed first: their segments, written before them, are then among the files found after.
        """
        manifests = sorted((self._outbox / "manifest").rglob("*.json"))
        for file in sorted(self._outbox.rglob("*.parquet")):
            if not file.name.startswith("."):
                yield file
        yield from manifests


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_mtime_ns) == (other.st_ino, other.st_mtime_ns)


def target(settings: Settings, work_folder: Path) -> Target:
    """Where the raw folder of the output lies; a relative one is the training process's."""
    from tracelake.recorder.sidecar.s3 import Bucket

    if settings.output.startswith("s3://"):
        url = f"{settings.output.rstrip('/')}/raw/{RAW_VERSION}"
        return Bucket(url, endpoint_url=settings.s3_endpoint_url, region=settings.s3_region)
    return Folder(work_folder / settings.output / "raw" / RAW_VERSION)
