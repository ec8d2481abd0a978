"""One window's rows on their way into segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracelake.recorder.samplers import Reading
from tracelake.recorder.segments import SourceWriter
from tracelake.recorder.sidecar.convert import annotation_table, finished, sample_table
from tracelake.recorder.sidecar.source_rows import Closing, capture_failed, loss_table, source_table
from tracelake.schemas.manifest import Segment

SMALL_ROWS = 20_000
"""A kind with fewer rows waits in the spool, unless its time has come: a footer costs as much as some thousand rows."""

NATIVE_KINDS = ("kernel", "memop", "sync", "api", "overhead")
"""Groups in which the capture counts the records that it writes to the spool."""


class Window:
    """Collects rows by raw kind; writes segments and the window's own rows into the outbox."""

    def __init__(self, outbox: Path, about: Mapping[str, Any], opened: Mapping[str, Any],
                 segments: Sequence[Segment] = ()) -> None:  # fmt: skip
        """`about` is the process, see source_rows.described; `opened` the journal's frame of the window."""
        self.opened = dict(opened)
        self.source_id: str = opened["source_id"]
        self.clock_offset_ns: int = opened["clock_offset_ns"]
        start_ns = opened["start_ns"] if opened["start_ns"] is not None else opened["loaded_ns"]
        self.day = _utc_day(start_ns + self.clock_offset_ns)
        self.writer = SourceWriter(outbox, self.day.isoformat(), about["job_id"], self.source_id, segments)
        self.stored: dict[str, int] = {}
        self.skipped: dict[str, int] = {}
        self.open_ranges: dict[int, tuple[str, int, int]] = {}
        self.gaps: list[dict[str, Any]] = []
        self.last_ns = start_ns
        # Of the tool's records since the script opened the window: read here, and counted there (produced, dropped).
        self.native_count = 0
        self.counted: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.is_counted_whole = False
        self._dropped_before: dict[str, int] = {}
        self._pending: dict[str, list[pa.Table]] = {}
        self._ranges: list[tuple[str, int, int, int | None]] = []
        self._readings: dict[str, list[Reading]] = {}

    # Rows in ------------------------------------------------------------------------------------------------------

    def add(self, kind: str, rows: pa.Table) -> None:
        if rows.num_rows:
            self._pending.setdefault(kind, []).append(rows)

    def add_range(self, text: str, thread_id: int, start_ns: int, end_ns: int | None) -> None:
        self._ranges.append((text, thread_id, start_ns, None if end_ns is None else end_ns - start_ns))
        self.seen(end_ns or start_ns)

    def add_readings(self, kind: str, readings: Sequence[Reading]) -> None:
        if readings:
            self._readings.setdefault(kind, []).extend(readings)

    def seen(self, at_ns: int) -> None:
        """Something happened at this instant: an interrupted window lasts at least until then."""
        self.last_ns = max(self.last_ns, at_ns)

    def skip(self, category: str, count: int) -> None:
        if count:
            self.skipped[category] = self.skipped.get(category, 0) + count

    def flag(self, reason: str) -> None:
        self.opened["flags"] = sorted({reason, *self.opened.get("flags", ())})

    def is_over(self, now_unix_ns: int) -> bool:
        """Whether the UTC day in which the window started has ended."""
        return _utc_day(now_unix_ns) > self.day

    @property
    def pending_rows(self) -> int:
        in_tables: int = sum(table.num_rows for tables in self._pending.values() for table in tables)
        return in_tables + len(self._ranges) + sum(map(len, self._readings.values()))

    # Segments out -------------------------------------------------------------------------------------------------

    def flush(self, *, everything: bool) -> None:
        """Write the kinds that fill a segment, or all. Raises OSError; what is not written stays."""
        self._settle()
        for kind in list(self._pending):
            tables = self._pending[kind]
            count = sum(table.num_rows for table in tables)
            if count < SMALL_ROWS and not everything:
                continue
            self.writer.write(kind, finished(kind, tables, self.clock_offset_ns, self.stored.get(kind, 0)))
            self.stored[kind] = self.stored.get(kind, 0) + count
            del self._pending[kind]

    def _settle(self) -> None:
        """Rows kept as Python values become tables."""
        if self._ranges:
            self.add("annotation", annotation_table(self._ranges))
            self._ranges = []
        for kind, readings in self._readings.items():
            self.add(kind, sample_table(readings))
        self._readings = {}

    def publish(self, about: Mapping[str, Any], closing: Closing | None = None) -> None:
        """Write the window's own rows and the manifest. Raises OSError."""
        self.writer.write_source(source_table(about, self, closing))
        status = closing.status if closing else "running"
        self.writer.close(
            status, attempt=about["attempt"], closed=closing is not None, rows=self.row_counts(), file=None
        )

    def row_counts(self) -> dict[str, int]:
        stored, skipped = sum(self.stored.values()), sum(self.skipped.values())
        return {"read": stored + skipped, "stored": stored, "quarantined": 0, "deduplicated": 0, "skipped": skipped}

    def leave_open(self) -> None:
        """Ranges that never closed become rows without an end."""
        for text, thread_id, start_ns in self.open_ranges.values():
            self.add_range(text, thread_id, start_ns, None)
        self.open_ranges = {}

    def hand_over(self, following: Window) -> None:
        """Give the window that follows without a stop what belongs to it."""
        at_ns = following.opened["start_ns"]
        following._ranges += [entry for entry in self._ranges if entry[2] >= at_ns]
        self._ranges = [entry for entry in self._ranges if entry[2] < at_ns]
        following.open_ranges |= {n: entry for n, entry in self.open_ranges.items() if entry[2] >= at_ns}
        self.open_ranges = {n: entry for n, entry in self.open_ranges.items() if entry[2] < at_ns}
        for kind, readings in self._readings.items():
            following.add_readings(kind, [reading for reading in readings if reading.monotonic_ns >= at_ns])
            self._readings[kind] = [reading for reading in readings if reading.monotonic_ns < at_ns]
        following.native_count, following._dropped_before = self.native_count, dict(self.counted[1])

    def closing(self, end_ns: int, interrupted: str | None) -> Closing:
        """How the window ends: its status follows from what was lost."""
        dropped = {kind: count - self._dropped_before.get(kind, 0) for kind, count in self.counted[1].items()}
        dropped = {kind: count for kind, count in dropped.items() if count > 0}
        if self.lost_count:
            dropped["spool"] = self.lost_count
        status, reason = "complete", None
        if interrupted:
            status, reason = "interrupted", interrupted
        elif capture_failed(self.opened):
            status, reason = "degraded", "gpu_capture_failed"
        elif dropped:
            status, reason = "degraded", "events_dropped"
        return Closing(end_ns, status, reason, dropped=dropped)

    @property
    def lost_count(self) -> int:
        """Records that were counted as written to the spool and are not in it."""
        if not self.is_counted_whole:
            return 0
        produced, dropped = ({k: n for k, n in counts.items() if k in NATIVE_KINDS} for counts in self.counted)
        return max(0, sum(produced.values()) - sum(dropped.values()) - self.native_count)

    def write_losses(self, closing: Closing, file: str) -> None:
        """What is missing, as rows of raw.loss: dropped events by kind, and gaps left to other profilers."""
        losses = [
            {"file": file, "row_index": None, "rows_count": count, "excerpt": kind,
             "reason": "spool_lost" if kind == "spool" else "dropped"}
            for kind, count in sorted(closing.dropped.items())
        ]  # fmt: skip
        losses += [
            {"file": file, "row_index": number, "rows_count": None, "reason": gap["reason"],
             "excerpt": f"{gap['start_ns'] + self.clock_offset_ns} to {gap['end_ns'] + self.clock_offset_ns} ns"}
            for number, gap in enumerate(self.gaps)
        ]  # fmt: skip
        if losses and not any(segment.kind == "loss" for segment in self.writer.segments):
            self.writer.write("loss", loss_table(losses))

    # Across a restart of the sidecar ------------------------------------------------------------------------------

    def save(self, folder: Path) -> dict[str, Any]:
        """Put what is pending aside, whole; the answer restores the window. Raises OSError."""
        self._settle()
        kinds = []
        for kind, tables in self._pending.items():
            rows = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
            self._pending[kind] = [rows]
            aside = folder / f".pending-{self.source_id}-{kind}.tmp"
            with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            aside.replace(_pending_path(folder, self.source_id, kind))
            kinds.append(kind)
        return {
            "opened": self.opened, "segments": [vars(segment) for segment in self.writer.segments],
            "stored": self.stored, "skipped": self.skipped, "open_ranges": list(self.open_ranges.items()),
            "gaps": self.gaps, "last_ns": self.last_ns, "native_count": self.native_count, "kinds": kinds,
            "counted": self.counted, "_dropped_before": self._dropped_before,
        }  # fmt: skip

    @staticmethod
    def restore(outbox: Path, about: Mapping[str, Any], folder: Path, state: Mapping[str, Any]) -> Window:
        window = Window(outbox, about, state["opened"], [Segment(**segment) for segment in state["segments"]])
        for name in ("stored", "skipped", "gaps", "last_ns", "native_count", "counted", "_dropped_before"):
            setattr(window, name, state[name])
        window.open_ranges = {number: tuple(entry) for number, entry in state["open_ranges"]}
        for kind in state["kinds"]:
            with pa.OSFile(str(_pending_path(folder, window.source_id, kind)), "rb") as source:
                window.add(kind, pa.ipc.open_stream(source).read_all())
        return window

    def forget(self, folder: Path) -> None:
        """Remove what was put aside: it is in segments now."""
        for path in _pending_files(folder, self.source_id):
            path.unlink(missing_ok=True)


def _pending_path(folder: Path, source_id: str, kind: str) -> Path:
    return folder / f"pending-{source_id}-{kind}.arrow"


def _pending_files(folder: Path, source_id: str) -> Iterator[Path]:
    return folder.glob(f"pending-{source_id}-*.arrow")


def _utc_day(unix_ns: int) -> date:
    return datetime.fromtimestamp(unix_ns // 1_000_000_000, tz=timezone.utc).date()
