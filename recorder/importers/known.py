"""Is a file in the job already: as it is, as part of a whole one, or as a cut of this one?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracelake.recorder.importers.chunks import ByteStream
from tracelake.recorder.importers.events import TraceReader
from tracelake.recorder.segments import Staging
from tracelake.schemas.manifest import Manifest, manifests
from tracelake.schemas.storage import Storage


@dataclass(frozen=True)
class KnownFile:
    """One file that the job holds, with all of its sources. `sha256` is of its first `read_bytes` bytes."""

    sha256: str
    read_bytes: int
    is_cut: bool
    sources: tuple[Manifest, ...]

    @property
    def marks(self) -> dict[int, str]:
        return {int(at): digest for m in self.sources for at, digest in m.prefix_hashes.items()}


def known_files(raw: Storage, job_id: str) -> list[KnownFile]:
    """The imported files of a job. Raises BadManifest."""
    groups: dict[tuple[str, int, bool], list[Manifest]] = {}
    for _, manifest in manifests(raw, job_id):
        if manifest.file_sha256 and manifest.read_bytes:
            key = (manifest.file_sha256, manifest.read_bytes, manifest.status == "incomplete")
            groups.setdefault(key, []).append(manifest)
    return [KnownFile(*key, tuple(sources)) for key, sources in groups.items()]


def twin(
    known: Sequence[KnownFile], stream: ByteStream, reader: TraceReader, staging: Staging, raw: Storage
) -> KnownFile | None:
    """The file that holds everything this one does: the same bytes, or a whole (or longer) one of which it is a cut."""
    for file in known:
        if not file.is_cut and file.sha256 == stream.sha256:
            return file
        if reader.cut and file.is_cut and reader.read_bytes <= file.read_bytes and _begins_with(stream, file):
            return file
        longer = file.read_bytes >= reader.read_bytes
        if reader.cut and longer and _agree(stream.marks, file.marks) and _rows_begin(file, staging, raw):
            return file
    return None


def cuts_of(known: Sequence[KnownFile], stream: ByteStream, reader: TraceReader) -> tuple[str, ...]:
    """Sources of the cut files that this one begins with and goes beyond: it supersedes them."""
    return tuple(
        manifest.source_id
        for file in known
        if file.is_cut and _begins_with(stream, file) and reader.read_bytes > file.read_bytes
        for manifest in file.sources
        if not manifest.source_id.startswith(stream.sha256)  # its own sources are replaced, not superseded
    )


def _begins_with(stream: ByteStream, file: KnownFile) -> bool:
    return stream.prefix_hashes.get(file.read_bytes) == file.sha256


def _agree(ours: dict[int, str], theirs: dict[int, str]) -> bool:
    return all(theirs[at] == digest for at, digest in ours.items() if at in theirs)


def _rows_begin(file: KnownFile, staging: Staging, raw: Storage) -> bool:
    """Whether the known file's rows begin with the staged ones, kind by kind: hash marks alone leave a tail open.

    Starts are compared from the first one on, since a cut file has lost the base time that stands at its end.
    """
    return bool(staging.kinds) and all(_kind_begins(file, kind, staging, raw) for kind in staging.kinds)


def _kind_begins(file: KnownFile, kind: str, staging: Staging, raw: Storage) -> bool:
    words = _WORDS.get(kind, "kind")
    columns = ["event_id", "start_ns", "duration_ns", words]
    ours = pa.concat_tables([rows.select(columns).cast(_plain(rows, columns)) for rows in staging.read(kind)])
    paths = [s.path for m in file.sources for s in m.segments if s.kind == kind]
    parts = [_columns(raw, path, columns) for path in paths if raw.size(path) is not None]
    if not parts:
        return False
    first = [part.filter(pc.less(part["event_id"], ours.num_rows)) for part in parts]
    theirs = pa.concat_tables([part.cast(_plain(part, columns)) for part in first]).sort_by("event_id")
    if theirs.num_rows != ours.num_rows or not ours.num_rows:
        return False
    starts = [pc.subtract(rows["start_ns"], rows["start_ns"][0]) for rows in (ours, theirs)]
    return bool(starts[0].equals(starts[1])) and all(ours[c].equals(theirs[c]) for c in ("duration_ns", words))


def _columns(raw: Storage, path: str, columns: list[str]) -> pa.Table:
    with raw.open(path) as file:
        return pq.read_table(file, columns=columns)


_WORDS = {"kernel": "name", "launch": "api_name", "annotation": "text", "operator": "name"}


def _plain(rows: pa.Table, columns: Sequence[str]) -> pa.Schema:
    """The columns' types with dictionaries as text and everything nullable, so that tables compare by value."""
    return pa.schema([(c, pa.string() if c == columns[-1] else rows.schema.field(c).type) for c in columns])
