"""From what the kernel prints to readings: differences since the last time, and one reason for what is not there."""

from __future__ import annotations

import os

from tracelake.recorder.samplers import Reading

Metrics = tuple[tuple[str, str, str, str], ...]


def read(path: str) -> bytes:
    """A file of /proc or /sys, whose size is not known before. OSError as the kernel gives it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = []
        while chunk := os.read(descriptor, 1 << 16):
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def reason(error: Exception) -> str:
    """Why a file gave nothing, as in the column `reason`."""
    if isinstance(error, PermissionError):
        return "no_permission"
    if isinstance(error, OSError | KeyError):
        return "not_available"
    return "unreadable"


class Figures:
    """Collects the readings of one tick; remembers counters and what was said to be absent between ticks."""

    def __init__(self, metrics: Metrics) -> None:
        self._units = {(kind, metric): unit for kind, metric, unit, _ in metrics}
        self._counters: dict[tuple[str, str, str], float] = {}
        self._absent: set[tuple[str, str, str]] = set()
        self._at_ns = 0
        self._rows: list[Reading] = []

    def start(self, at_ns: int) -> None:
        self._at_ns, self._rows = at_ns, []

    def finish(self) -> list[Reading]:
        return self._rows

    def add(self, kind: str, entity: str, metric: str, value: float) -> None:
        unit = self._units[kind, metric]
        self._rows.append(Reading(self._at_ns, kind, entity, metric, unit, float(value)))

    def difference(self, kind: str, entity: str, metric: str, counter: float) -> None:
        """How far the counter came since the last tick: nothing on the first, or where it began anew."""
        key = (kind, entity, metric)
        before = self._counters.get(key)
        self._counters[key] = counter
        if before is not None and counter >= before:
            self.add(kind, entity, metric, counter - before)

    def null(self, kind: str, entity: str, metric: str, why: str) -> None:
        """A reading that failed."""
        unit = self._units[kind, metric]
        self._rows.append(Reading(self._at_ns, kind, entity, metric, unit, None, False, why))

    def absent(self, kind: str, entity: str, metrics: tuple[str, ...], why: str) -> None:
        """NULL with a reason, the first time only."""
        for metric in metrics:
            key = (kind, entity, metric)
            if key not in self._absent:
                self._absent.add(key)
                self.null(kind, entity, metric, why)
