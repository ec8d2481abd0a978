"""One foreign trace file into raw segments: all of its sources, or an error and nothing."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracelake.recorder.importers.chunks import ByteStream
from tracelake.recorder.importers.columns import whole
from tracelake.recorder.importers.duplicates import KINDS as COPIED_KINDS
from tracelake.recorder.importers.duplicates import copies
from tracelake.recorder.importers.events import Loss, NotATrace, TraceReader
from tracelake.recorder.importers.kineto import KinetoSorter, Sorted, Span
from tracelake.recorder.importers.known import cuts_of, known_files, twin
from tracelake.recorder.importers.processes import DEVICE_ONLY, Processes, assign
from tracelake.recorder.redact import hide, hide_map
from tracelake.recorder.segments import SourceWriter, Staging, local_lake
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import RAW_FOLDER, raw_root
from tracelake.schemas.render.arrow import arrow_schema
from tracelake.schemas.storage import Storage, storage_of

VERSION = "kineto-1"
REMEDIES = {
    "unreadable_row": "the row is not JSON and could not be mended; record the trace again if it matters",
    "cut_row": "the file ends here; import the whole file and it replaces this salvage",
    "damaged": "the file is damaged here; copy it again from where it was recorded",
    "zero_time": "the tool wrote no time for this event; nothing to do",
    "sentinel_time": "the tool wrote a marker instead of a time; nothing to do",
    "negative_duration": "the event ends before it starts; update the profiler that wrote it",
}
"""What a reader can do about a loss, by reason code."""


@dataclass(frozen=True)
class ImportOptions:
    """What the user says about a trace; each overrides what the file says."""

    job_id: str
    attempt: int = 0
    node_id: str | None = None
    rank: int | None = None
    operators: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    """project, user, family, instance_type, cloud_account, cloud_region, instance_id, cloud_job_id."""


@dataclass(frozen=True)
class Imported:
    """What became of one file."""

    path: str
    sources: tuple[str, ...]
    status: str
    rows_read: int
    rows_stored: int
    rows_lost: int
    duplicate: bool = False
    warnings: Mapping[str, int] = field(default_factory=dict)


class ImportFailed(ValueError):
    """The file cannot be imported; the text is one line that names file, place and remedy."""


def import_file(path: Path, lake: Path | Storage, options: ImportOptions, name: str | None = None) -> Imported:
    """Read a Kineto trace and publish its sources. Raises ImportFailed, StorageFailed, and leaves nothing to see.

    `name` is where the trace lies, if `path` is a copy of it.
    """
    with local_lake(storage_of(lake)) as folder:
        return _import(path, name or str(path), storage_of(lake).below(RAW_FOLDER), folder, options)


def _import(path: Path, name: str, raw: Storage, lake: Path, options: ImportOptions) -> Imported:
    """`raw` is what the lake holds, `lake` the folder to write into."""
    known = known_files(raw, options.job_id)
    stream = ByteStream(path, [file.read_bytes for file in known if file.is_cut])
    staging = Staging(lake)
    # The system's allocator gives pages back; Arrow's own keeps them, a sixth of the peak.
    pool = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        sorter = KinetoSorter(staging, operators=options.operators)
        reader = TraceReader(stream)
        try:
            for batch in reader:
                sorter.add(batch)
        except NotATrace as error:
            raise ImportFailed(
                f"{name}: not a trace: {error}; give a Kineto (Chrome trace) .json or .json.gz"
            ) from error
        if not sorter.found.counts and not sorter.found.host:
            raise ImportFailed(f"{name}: no event of a training trace among its {reader.rows} rows")
        if (twin_ := twin(known, stream, reader, staging, raw)) is not None:
            held = tuple(manifest.source_id for manifest in twin_.sources)
            return Imported(name, held, twin_.sources[0].status, reader.rows, 0, 0, duplicate=True)
        trace = _Trace(path, name, stream, reader, sorter.found, options, cuts_of(known, stream, reader))
        return _publish(trace, staging, raw_root(lake))
    finally:
        pa.set_memory_pool(pool)
        staging.discard()


@dataclass(frozen=True)
class _Trace:
    path: Path
    name: str
    stream: ByteStream
    reader: TraceReader
    found: Sorted
    options: ImportOptions
    superseded: tuple[str, ...]

    @property
    def losses(self) -> list[Loss]:
        return self.reader.losses + self.found.losses

    @property
    def sha256(self) -> str:
        """Of the bytes that the sources rest on: the whole file, or a cut one's whole events."""
        return self.stream.sha256

    @property
    def base_ns(self) -> int:
        return whole(self.reader.header.get("baseTimeNanoseconds")) or 0


def _publish(trace: _Trace, staging: Staging, root: Path) -> Imported:
    """Write every source's segments, then their manifests. A failure (a full disk) takes the segments back."""
    processes = assign(staging, trace.found.processes)
    damaged = any(loss.reason == "damaged" for loss in trace.losses)
    status = "incomplete" if trace.reader.cut else "degraded" if damaged else "complete"
    day = _day(trace)
    writers = [
        SourceWriter(root, day, trace.options.job_id, f"{trace.sha256}-{ordinal}")
        for ordinal in range(len(processes.order))
    ]
    copied = {kind: copies(partial(staging.read, kind)) for kind in COPIED_KINDS}
    try:
        counts = [
            _write_source(trace, writer, staging, processes, ordinal, status, copied)
            for ordinal, writer in enumerate(writers)
        ]
    except BaseException:
        for writer in writers:
            writer.discard()
        raise
    for ordinal, (writer, rows) in enumerate(zip(writers, counts, strict=True)):
        _close(trace, writer, rows, status, first=ordinal == 0)
    read, stored, lost = (sum(rows[name] for rows in counts) for name in ("read", "stored", "quarantined"))
    sources = tuple(writer.source_id for writer in writers)
    return Imported(trace.name, sources, status, read, stored, lost, warnings=trace.reader.warnings)


def _write_source(
    trace: _Trace,
    writer: SourceWriter,
    staging: Staging,
    processes: Processes,
    ordinal: int,
    status: str,
    copied: Mapping[str, pa.Array],
) -> dict[str, int]:
    process = processes.order[ordinal]
    stored, left_out = _write_events(writer, staging, processes, process, trace.base_ns, copied)
    rows = _row_counts(trace, stored, left_out, first=ordinal == 0)
    if ordinal == 0:
        _write_losses(writer, trace)
    writer.write("source", _source_rows(trace, writer, process, len(processes.order), status, rows))
    return rows


def _close(trace: _Trace, writer: SourceWriter, rows: dict[str, int], status: str, *, first: bool) -> None:
    is_cut = trace.reader.cut is not None
    writer.close(
        status,
        attempt=trace.options.attempt,
        rows=rows,
        file=trace.name,
        file_sha256=_hash_of_read(trace) if is_cut else trace.sha256,
        file_bytes=trace.stream.length,
        read_bytes=trace.reader.read_bytes if is_cut else trace.stream.length,
        prefix_hashes={str(at): digest for at, digest in trace.stream.marks.items()} if first else {},
        supersedes=trace.superseded if first else (),
    )


def _hash_of_read(trace: _Trace) -> str:
    """SHA-256 of the prefix that ends with the last whole event: what a later whole file starts with."""
    again = ByteStream(trace.path, [trace.reader.read_bytes])
    for _ in again:
        if again.length >= trace.reader.read_bytes:
            break
    return again.prefix_hashes[trace.reader.read_bytes]


def _write_events(
    writer: SourceWriter,
    staging: Staging,
    processes: Processes,
    process: int | None,
    base_ns: int,
    copied: Mapping[str, pa.Array],
) -> tuple[int, int]:
    """(rows stored, exact copies left out) of one process."""
    stored = left_out = 0
    for kind in staging.kinds:
        for rows in processes.rows_of(kind, process):
            if len(copied.get(kind, ())):
                kept = rows.filter(pc.invert(pc.is_in(rows["event_id"], copied[kind])))
                left_out += rows.num_rows - kept.num_rows
                rows = kept
            start = pc.add(rows["start_ns"], base_ns)
            rows = rows.set_column(rows.column_names.index("start_ns"), "start_ns", start)
            writer.write(kind, rows)
            stored += rows.num_rows
    return stored, left_out


def _row_counts(trace: _Trace, stored: int, left_out: int, *, first: bool) -> dict[str, int]:
    """Rows of one source. What belongs to no process (metadata, losses) counts in the file's first source."""
    quarantined = sum(loss.rows or 0 for loss in trace.losses) if first else 0
    skipped = sum(trace.found.skipped.values()) if first else 0
    return {
        "read": stored + quarantined + left_out + skipped,
        "stored": stored,
        "quarantined": quarantined,
        "deduplicated": left_out,
        "skipped": skipped,
    }


def _write_losses(writer: SourceWriter, trace: _Trace) -> None:
    rows = [
        {
            "job_id": writer.job_id,
            "source_id": writer.source_id,
            "file": trace.name,
            "offset_bytes": loss.offset,
            "length_bytes": loss.length,
            "row_index": loss.row_index,
            "rows_count": loss.rows,
            "reason": loss.reason,
            "remedy": REMEDIES[loss.reason],
            "excerpt": loss.excerpt.decode("utf-8", "backslashreplace"),
        }
        for loss in trace.losses
    ]
    if rows:
        writer.write("loss", pa.Table.from_pylist(rows, arrow_schema(table("raw.loss"))))


def _day(trace: _Trace) -> str:
    spans = [trace.found.device, *trace.found.host.values()]
    starts = [span.start for span in spans if span.start is not None]
    seconds = (min(starts, default=0) + trace.base_ns) // 1_000_000_000
    try:
        return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return "1970-01-01"


def _host_span(trace: _Trace, process: int | None, several: bool) -> Span:
    """Host events of the process; a file with one process counts all of them, whatever pid they carry."""
    span = Span()
    for pid, each in trace.found.host.items():
        if (pid == process or not several) and each.start is not None and each.end is not None:
            span.add(each.start + trace.base_ns, each.end + trace.base_ns)
    return span


def _source_rows(
    trace: _Trace, writer: SourceWriter, process: int | None, sources: int, status: str, rows: Mapping[str, int]
) -> pa.Table:
    header, options = trace.reader.header, trace.options
    facts = {name: hide(value) for name, value in options.facts.items()}
    world = header.get("distributedInfo")
    world = world if isinstance(world, dict) else {}
    rank = options.rank if options.rank is not None else whole(world.get("rank"))
    host = _host_span(trace, process, sources > 1)
    flags = ["rank_missing"] if rank is None else []
    if process == DEVICE_ONLY:
        flags.append("process_missing")
    flags += sorted(trace.reader.warnings)
    row = {
        "day": dt.date.fromisoformat(writer.day),
        "job_id": options.job_id,
        "attempt": options.attempt,
        "source_id": writer.source_id,
        "format": "kineto",
        "node_id": options.node_id or _text(header.get("host_name")),
        "rank": rank,
        "world_size": whole(world.get("world_size")),
        "process_id": None if process == DEVICE_ONLY else process,
        "state": None,
        **{name: facts.get(name) for name in ("project", "family", "instance_type", "cloud_account", "cloud_region")},
        **{name: facts.get(name) for name in ("instance_id", "cloud_job_id")},
        "user": facts.get("user") or _text(header.get("username")),
        "framework": "PyTorch",
        "devices": json.dumps(_devices(header)),
        "hyperparameters": [],
        "tags": [*hide_map({**options.tags, **_header_tags(header)}).items()],
        "host_start_ns": host.start,
        "host_end_ns": host.end,
        "status": status,
        "status_reason": trace.reader.cut or ("file_damaged" if status == "degraded" else None),
        "flags": flags,
        **{f"rows_{name}_count": count for name, count in rows.items()},
        "skipped": [(name, str(count)) for name, count in sorted(trace.found.skipped.items())],
        "produced": [],
        "dropped": [],
        "file": trace.name,
        "file_sha256": trace.sha256,
        "file_bytes": trace.stream.length,
        "read_bytes": trace.reader.read_bytes if trace.reader.cut else trace.stream.length,
        "recorder_version": VERSION,
    }
    return pa.Table.from_pylist([row | {"phase": "open"}, row | {"phase": "close"}], arrow_schema(table("raw.source")))


def _text(value: object) -> str | None:
    return str(value) if value not in (None, "") else None


def _header_tags(header: Mapping[str, Any]) -> dict[str, str]:
    named = ("trace_id", "traceName", "backend", "cuda_runtime_version", "hip_runtime_version", "cupti_version")
    world = header.get("distributedInfo")
    fields = {**header, **(world if isinstance(world, dict) else {})}
    return {f"kineto.{name}": str(fields[name]) for name in named if fields.get(name) not in (None, "")}


def _devices(header: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = header.get("deviceProperties") or header.get("computeProperties") or []
    devices = []
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict):
            major, minor = each.get("computeMajor", each.get("major")), each.get("computeMinor", each.get("minor"))
            devices.append(
                {
                    "index": whole(each.get("id")),
                    "uuid": _text(each.get("uuid")),
                    "name": _text(each.get("name")),
                    "memory_bytes": whole(each.get("totalGlobalMem")),
                    "sm_count": whole(each.get("numSms", each.get("multiProcessorCount"))),
                    "compute_capability": f"{major}.{minor}" if major is not None else None,
                }
            )
    return devices
