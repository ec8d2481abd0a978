"""Brings segments from the outbox to the lake: a folder, or S3. What fails stays and is tried again."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

from tracelake.recorder.segments import outgoing
from tracelake.recorder.settings import Settings
from tracelake.schemas.bucket import SCHEME, S3Options, storage_at
from tracelake.schemas.manifest import RAW_FOLDER
from tracelake.schemas.storage import Folder, Storage, StorageFailed

LOG = logging.getLogger("tracelake.recorder.sidecar")


TURN_SECONDS, MOST_PAUSE_SECONDS = 0.25, 30.0
LAST_SECONDS = 110.0
"""How long delivery is tried once the process has ended: a spot instance leaves two minutes."""


class Delivery:
    """Empties an outbox in a thread of its own, segments before the manifests that list them."""

    def __init__(self, outbox: Path, target: Storage) -> None:
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
        for file in outgoing(self._outbox):
            written = file.stat()
            try:
                self._target.put(file, str(file.relative_to(self._outbox)))
            except StorageFailed as error:
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


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_mtime_ns) == (other.st_ino, other.st_mtime_ns)


def target(settings: Settings, work_folder: Path) -> Storage:
    """Where the raw folder of the output lies; a relative one is the training process's."""
    if settings.output.startswith(SCHEME):
        options = S3Options(settings.s3_endpoint_url, settings.s3_region)
        return storage_at(settings.output, options).below(RAW_FOLDER)
    return Folder(work_folder / settings.output / RAW_FOLDER)
