"""Raw segments: whole Parquet files, staged aside and renamed, listed by a manifest that is written last.

A reader sees a window when its manifest is there, and then all of it; a writer that dies leaves nothing visible.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import KINDS, RAW_FOLDER, Manifest, Segment, job_folder, manifest_path, raw_root
from tracelake.schemas.render.arrow import arrow_schema, parquet_options
from tracelake.schemas.storage import Folder, Storage

SEGMENT_ROWS = 500_000
"""Rows of a full segment: large enough that a footer costs nothing, small enough to hold in memory."""
_PUT_AT_ONCE = 4


def outgoing(outbox: Path) -> Iterator[Path]:
    """Files of a raw folder that are whole, each manifest after its segments. What is being written has a dot in front.

    Manifests are listed first: their segments, written before them, are then among the files found after.
    """
    manifests = sorted((outbox / "manifest").rglob("*.json"))
    for file in sorted(outbox.rglob("*.parquet")):
        if not file.name.startswith("."):
            yield file
    yield from manifests


@contextmanager
def local_lake(lake: Storage) -> Iterator[Path]:
    """A folder to write raw data into: the lake itself where it is one, else one whose files go there at the end.

    Where it fails, or the upload does, no manifest lists what was brought; the next try writes the same files.
    """
    if isinstance(lake, Folder):
        yield lake.root
        return
    with tempfile.TemporaryDirectory(prefix="tracelake-") as aside:
        yield Path(aside)
        outbox, raw = raw_root(Path(aside)), lake.below(RAW_FOLDER)
        files = list(outgoing(outbox))
        segments = [file for file in files if file.suffix == ".parquet"]
        with ThreadPoolExecutor(_PUT_AT_ONCE) as pool:
            list(pool.map(lambda file: raw.put(file, file.relative_to(outbox).as_posix()), segments))
        for file in files[len(segments) :]:
            raw.put(file, file.relative_to(outbox).as_posix())


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

    def __init__(self, root: Path, day: str, job_id: str, source_id: str, segments: Iterable[Segment] = ()) -> None:
        """`segments` are those that an earlier writer of this source has written."""
        self.root, self.day, self.job_id, self.source_id = root, day, job_id, source_id
        self._segments = list(segments)
        self._numbers = {kind: sum(segment.kind == kind for segment in self._segments) for kind in KINDS}

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    def write(self, kind: str, rows: pa.Table) -> None:
        """Write one segment. `rows` has the declared columns of raw.<kind>, in any order; ids are filled in.

        Text may come as dictionaries. Columns that may be NULL may be missing.
        """
        if not rows.num_rows:
            return
        declared = table(f"raw.{kind}")
        # Of dictionaries that differ from batch to batch only the first would be used.
        rows = self._complete(rows, arrow_schema(declared)).unify_dictionaries()
        number = self._numbers[kind]
        path = f"{kind}/day={self.day}/{job_folder(self.job_id)}/{quote(self.source_id, safe='')}-{number:05d}.parquet"
        final = self.root / path
        final.parent.mkdir(parents=True, exist_ok=True)
        aside = final.with_name(f".{final.name}.{os.getpid()}.tmp")
        pq.write_table(rows, aside, **parquet_options(declared, rows))
        aside.replace(final)
        self._segments.append(Segment(kind, path, rows.num_rows, final.stat().st_size))
        self._numbers[kind] = number + 1

    def write_source(self, rows: pa.Table) -> None:
        """Write the window's own rows anew: they take the place of those written before."""
        old = [segment for segment in self._segments if segment.kind == "source"]
        self.write("source", rows)
        self._segments = [segment for segment in self._segments if segment not in old]

    def _complete(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        columns, fields = [], []
        ids = {"job_id": self.job_id, "source_id": self.source_id}
        for field in schema:
            if field.name in rows.column_names:
                column = rows[field.name]
            elif field.name in ids:
                zeros = pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)
                column = pa.DictionaryArray.from_arrays(zeros, [ids[field.name]])
            else:
                column = pa.nulls(rows.num_rows, field.type)
            if not pa.types.is_dictionary(column.type):
                column = column.cast(field.type)
            columns.append(column)
            fields.append(field.with_type(column.type))
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

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
