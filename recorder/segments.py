"""Raw segments: whole Parquet files, staged aside and renamed, listed by a manifest that is written last.

A reader sees a window when its manifest is there, and then all of it; a writer that dies leaves nothing visible.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import Manifest, Segment, job_folder, manifest_path, raw_root
from tracelake.schemas.render.arrow import arrow_schema, parquet_options

SEGMENT_ROWS = 500_000
"""Rows of a full segment: large enough that a footer costs nothing, small enough to hold in memory."""


class Staging:
    """A folder beside the lake's raw data in which one window's segments are written before they become visible."""

    def __init__(self, lake: Path) -> None:
        self.root = raw_root(lake)
        self.folder = self.root / "_staging" / uuid.uuid4().hex
        self.folder.mkdir(parents=True)
        self._pending: dict[str, list[pa.RecordBatch]] = {}
        self._rows: dict[str, int] = {}
        self.files: dict[str, list[Path]] = {}

    def add(self, kind: str, batch: pa.RecordBatch) -> None:
        """Queue rows; a full segment goes to disk. The staged schema may lack the ids that are known only later."""
        if not batch.num_rows:
            return
        self._pending.setdefault(kind, []).append(batch)
        self._rows[kind] = self._rows.get(kind, 0) + batch.num_rows
        if self._rows[kind] >= SEGMENT_ROWS:
            self.flush(kind)

    def flush(self, kind: str | None = None) -> None:
        for each in [kind] if kind else list(self._pending):
            batches = self._pending.pop(each, [])
            self._rows.pop(each, None)
            if not batches:
                continue
            files = self.files.setdefault(each, [])
            path = self.folder / f"{each}-{len(files)}.arrow"
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            files.append(path)

    def read(self, kind: str) -> Iterable[pa.Table]:
        """The staged segments of a kind, one at a time; what was never flushed comes from memory."""
        for path in self.files.get(kind, []):
            with pa.memory_map(str(path)) as source:
                yield pa.ipc.open_stream(source).read_all()
        if batches := self._pending.get(kind):
            yield pa.Table.from_batches(batches)

    @property
    def kinds(self) -> list[str]:
        return sorted({*self.files, *self._pending})

    def discard(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class SourceWriter:
    """Writes the segments of one source under their final names; `close` makes them visible."""

    def __init__(self, root: Path, day: str, job_id: str, source_id: str) -> None:
        self.root, self.day, self.job_id, self.source_id = root, day, job_id, source_id
        self._segments: list[Segment] = []

    def write(self, kind: str, rows: pa.Table) -> None:
        """Write one segment. `rows` has the declared columns of raw.<kind>, in any order; ids are filled in."""
        if not rows.num_rows:
            return
        declared = table(f"raw.{kind}")
        schema = arrow_schema(declared)
        for name, value in (("job_id", self.job_id), ("source_id", self.source_id)):
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.repeat(pa.scalar(value), rows.num_rows))
        rows = rows.select(schema.names).cast(schema)
        number = sum(segment.kind == kind for segment in self._segments)
        path = f"{kind}/day={self.day}/{job_folder(self.job_id)}/{quote(self.source_id, safe='')}-{number:05d}.parquet"
        final = self.root / path
        final.parent.mkdir(parents=True, exist_ok=True)
        aside = final.with_name(f".{final.name}.{os.getpid()}.tmp")
        pq.write_table(rows, aside, **parquet_options(declared))
        aside.replace(final)
        self._segments.append(Segment(kind, path, rows.num_rows, final.stat().st_size))

    def discard(self) -> None:
        """Remove what was written: without a manifest nobody would ever see it."""
        for segment in self._segments:
            (self.root / segment.path).unlink(missing_ok=True)

    def close(self, status: str, *, attempt: int, closed: bool = True, **facts: Any) -> Manifest:
        """Publish the source: write its manifest, last and at once."""
        manifest = Manifest(
            self.job_id, self.source_id, self.day, attempt, status, closed, tuple(self._segments), **facts
        )
        final = self.root / manifest_path(self.day, self.job_id, self.source_id)
        final.parent.mkdir(parents=True, exist_ok=True)
        aside = final.with_suffix(f".{os.getpid()}.tmp")
        aside.write_text(manifest.to_json())
        aside.replace(final)
        return manifest
