"""Which process a device event belongs to, in files that hold several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tracelake.recorder.segments import Staging

DEVICE_ONLY = None
"""Stands for the source of device events that no process claims."""
_DEVICE_KINDS = ("kernel", "memop")
_EVENT_COLUMNS = ("correlation_id", "start_ns")


@dataclass(frozen=True)
class Processes:
    """The sources of a file, in the order of their ordinals, and each one's rows."""

    staging: Staging
    order: tuple[int | None, ...]
    launches: pa.Table | None

    def rows_of(self, kind: str, process: int | None) -> Iterable[pa.Table]:
        """Staged segments of one kind, cut to one process; the column `process` is dropped."""
        for rows in self.staging.read(kind):
            if len(self.order) > 1:
                rows = rows.filter(pc.equal(self._owner(kind, rows), -1 if process is None else process))
            yield rows.drop_columns(["process"])

    def _owner(self, kind: str, rows: pa.Table) -> pa.ChunkedArray:
        known = pc.is_in(rows["process"], pa.array([p for p in self.order if p is not None], pa.int64()))
        if self.launches is None:
            # no launch tells them apart: host rows follow their pid, device rows have none
            own = pa.repeat(-1, rows.num_rows) if _on_device(kind, rows) else rows["process"]
            return pc.if_else(known, own, -1)
        if kind in _DEVICE_KINDS:
            return self._launched_by(rows)
        if kind in ("annotation", "sync"):
            on_device = pc.and_(pc.is_null(rows["thread_id"]), pc.invert(pc.fill_null(known, False)))
            return pc.if_else(on_device, self._first(), rows["process"])
        return rows["process"]

    def _first(self) -> int:
        return next((p for p in self.order if p is not None), -1)

    def _launched_by(self, rows: pa.Table) -> pa.ChunkedArray:
        """Owner by the latest launch with the same correlation id that starts no later; else -1."""
        assert self.launches is not None
        keyed = rows.select(list(_EVENT_COLUMNS)).append_column("row", pa.array(range(rows.num_rows)))
        joined = keyed.sort_by("start_ns").join_asof(
            self.launches, on="start_ns", by="correlation_id", tolerance=-(1 << 62)
        )
        owner = joined.sort_by("row")["owner"]
        linked = pc.greater(pc.fill_null(rows["correlation_id"], 0), 0)
        return pc.if_else(linked, pc.fill_null(owner, -1), -1)


def _on_device(kind: str, rows: pa.Table) -> bool:
    return kind in _DEVICE_KINDS and rows.num_rows > 0


def assign(staging: Staging, processes: set[int]) -> Processes:
    """Decide the sources of the staged rows. One process takes everything; of several, each its own."""
    if len(processes) <= 1:
        order = tuple(processes) or (DEVICE_ONLY,)
        return Processes(staging, order, None)
    parts = [
        rows.select(["start_ns", "correlation_id", "process"]).rename_columns(["start_ns", "correlation_id", "owner"])
        for rows in staging.read("launch")
    ]
    launches = pa.concat_tables(parts).sort_by("start_ns") if parts else None
    found = Processes(staging, (*sorted(processes), DEVICE_ONLY), launches)
    orphans = any(rows.num_rows for kind in staging.kinds for rows in found.rows_of(kind, DEVICE_ONLY))
    return found if orphans else Processes(staging, tuple(sorted(processes)), launches)
