"""What leaves the training process for the journal: frames that must not be lost, and annotations that may."""

from __future__ import annotations

import threading
from pathlib import Path

from tracelake.recorder.annotation import Collector
from tracelake.recorder.log import once
from tracelake.recorder.spool import Journal


class Outgoing:
    """Writes the journal from any thread. Nothing raises: what a full disk refuses waits, or is dropped and counted."""

    def __init__(self, folder: Path, annotation_budget_count: int) -> None:
        """Raises OSError where there can be no journal."""
        self.journal = Journal(folder)
        self.collector = Collector(annotation_budget_count)
        self.is_full = False
        # All else depends on these, so they are tried again, in order, before anything that came after them.
        self._waiting: list[tuple[str, object]] = []
        self._lock = threading.Lock()

    def must(self, kind: str, value: object) -> None:
        """Append a frame, now or as soon as the disk allows."""
        with self._lock:
            self._waiting.append((kind, value))
        self.may()

    def may(self, kind: str | None = None, value: object = None) -> bool:
        """Append what waits and then this frame; whether all of it is in the journal."""
        with self._lock:
            try:
                while self._waiting:
                    self.journal.write(*self._waiting[0])
                    del self._waiting[0]
                if kind is not None:
                    self.journal.write(kind, value)
            except OSError as error:
                once("journal", "the spool cannot be written, annotations are dropped and counted: %s", error)
                return False
        return True

    def flush(self) -> None:
        """Append the annotations since the last time."""
        for taken in self.collector.take():
            if self.is_full or not self.may("annotations", taken):
                self.collector.dropped_count += len(taken[3])
