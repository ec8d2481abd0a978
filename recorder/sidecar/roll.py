"""One window becomes two at midnight or at 10^8 events, without stopping: no job's window is ever rebuilt whole."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc

from tracelake.recorder.sidecar.window import Window

MOST_EVENTS = 100_000_000
GRACE_SECONDS = 5.0
"""Device events come after the calls that started them; until then what comes is kept back, and then split at once."""


class Roll:
    """Events between two windows. A device event goes where its launch is, a call or range where it starts."""

    def __init__(self, old: Window, new: Window, grace_seconds: float = GRACE_SECONDS) -> None:
        self.old, self.new = old, new
        self.at_ns: int = new.opened["start_ns"]
        self._due = time.monotonic() + grace_seconds
        self._held: dict[str, list[pa.Table]] = {}

    def add(self, kind: str, rows: pa.Table) -> None:
        self._held.setdefault(kind, []).append(rows)

    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def split(self) -> None:
        last = max((self._last_launch(rows) for rows in self._held.get("launch", [])), default=0)
        for kind, tables in self._held.items():
            for rows in tables:
                if kind in ("kernel", "memop"):
                    # Correlation ids count up with the calls, on whichever thread.
                    is_old = pc.less_equal(rows["correlation_id"], last) if last else pc.less(
                        rows["start_ns"], self.at_ns)  # fmt: skip
                else:
                    is_old = pc.less(rows["start_ns"], self.at_ns)
                self.old.add(kind, rows.filter(is_old))
                self.new.add(kind, rows.filter(pc.invert(is_old)))
        self._held = {}
        self.old.hand_over(self.new)

    def _last_launch(self, rows: pa.Table) -> int:
        before = rows.filter(pc.less(rows["start_ns"], self.at_ns))
        return int(pc.max(before["correlation_id"]).as_py() or 0)
