"""Raw data of any size: a simulated window, played once, repeated in time with fresh ids, through the real writer.

A window of the simulator holds what a real one does (kernels with launches, copies, waits, nested annotations,
collectives, samples). Its steps are made longer, its times shorter, so that kernels of tens of microseconds come as
densely as in a real training; then it is laid end to end as often as a size needs.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracelake.recorder.segments import SEGMENT_ROWS, SourceWriter
from tracelake.recorder.simulate import DAY
from tracelake.recorder.simulate.bulk import closing
from tracelake.recorder.simulate.events import RankEvents, arrow_table
from tracelake.recorder.simulate.fleet import SECOND_NS, day_start_ns, jobs, node
from tracelake.recorder.simulate.lake import VERSION, device_json, row_counts, source_table
from tracelake.recorder.simulate.play import play
from tracelake.recorder.simulate.samples import sample
from tracelake.schemas.manifest import raw_root

SEED = 7
TILE_STEPS = 6
LAYERS_TIMES = 20
"""Layers per layer of the simulated models: some 1,000 kernels a step, as large models have."""
FASTER = 20
"""By what all times are divided: kernels last tens of microseconds and come some 20,000 a second."""
SAMPLED_EVERY = 10
"""Samples come with every so many repetitions, one in some seconds."""
_RANKS = 4


@dataclass(frozen=True)
class Tile:
    """One window of the simulator as Arrow tables, its times counted from its start."""

    tables: dict[str, pa.Table]
    length_ns: int
    opened: dict[str, Any]

    @property
    def kernels(self) -> int:
        return int(self.tables["kernel"].num_rows)

    @property
    def ids(self) -> int:
        """More than any correlation id of the window."""
        return int(pc.max(self.tables["launch"]["correlation_id"]).as_py()) + 1


@dataclass(frozen=True)
class Made:
    """What was written."""

    jobs: int
    sources: int
    rows: dict[str, int]
    bytes: int

    @property
    def events(self) -> int:
        return sum(self.rows.values())

    def __add__(self, other: Made) -> Made:
        rows = {kind: self.rows.get(kind, 0) + other.rows.get(kind, 0) for kind in {**self.rows, **other.rows}}
        return Made(self.jobs + other.jobs, self.sources + other.sources, rows, self.bytes + other.bytes)


NOTHING = Made(0, 0, {}, 0)


def write_fleet(lake: Path, count: int, kernels: int, *, first: int = 0, ranks: int = 2) -> Made:
    """`count` jobs of about `kernels` kernels each, shared among `ranks` processes; each takes one of six models."""
    made = NOTHING
    for number in range(first, first + count):
        made += write_job(lake, f"fleet-{number:05d}", kernels, model=number, ranks=ranks)
    return made


def write_job(lake: Path, job_id: str, kernels: int, *, model: int = 0, ranks: int = 1) -> Made:
    """One job of at least `kernels` kernels on `ranks` devices, in whole repetitions of its window."""
    made = Made(1, 0, {}, 0)
    for rank in range(ranks):
        tile = _tile(model % len(jobs(0.0)), rank % _RANKS)
        made += _write_source(lake, job_id, rank, ranks, tile, -(-kernels // (ranks * tile.kernels)))
    return made


@functools.cache
def _tile(model: int, rank: int) -> Tile:
    """The window of one rank of a healthy job, with long steps and short times."""
    chosen = jobs(0.0)[model]
    workload = replace(chosen.workload, layers=chosen.workload.layers * LAYERS_TIMES)
    job = replace(chosen, workload=workload, nodes=1, devices_per_node=_RANKS, steps=TILE_STEPS, faults=())
    day_ns = day_start_ns(DAY)
    events = play(job, SEED, day_ns)[rank]
    machine = node(SEED, job, 0)
    events.samples = sample(job, machine, rank, SEED, events, day_ns)
    tables = {kind: _faster(kind, rows, events) for kind, rows in events.tables().items() if rows}
    opened = {
        "format": "tracelake",
        "node_id": machine.node_id,
        "process_id": 2_000 + rank,
        "process_name": "python",
        "project": job.project,
        "user": job.user,
        "family": job.family,
        "framework": "PyTorch 2.9.1",
        "instance_type": job.hardware.instance_type,
        "devices": device_json(job.hardware, rank, machine.device_uuids[rank]),
        "hyperparameters": sorted(job.hyperparameters.items()),
        "tags": sorted(job.tags.items()),
    }
    return Tile(tables, (events.window_end_ns - events.window_start_ns) // FASTER, opened)


def _faster(kind: str, rows: Any, events: RankEvents) -> pa.Table:
    """Rows with times from the window's start on, divided. Ends are divided, not lengths: what touched still does."""
    table = arrow_table(kind, rows, -events.window_start_ns)
    if kind == "sample":
        at = pc.divide(table["at_ns"], FASTER)
        return _set(_set(table, "at_ns", at), "monotonic_ns", at)
    start = pc.divide(table["start_ns"], FASTER)
    end = pc.divide(pc.add(table["start_ns"], table["duration_ns"]), FASTER)
    table = _set(_set(table, "start_ns", start), "duration_ns", pc.subtract(end, start))
    for name in ("name", "api_name", "collective_name", "dtype", "group_id"):
        if name in table.column_names:
            table = _set(table, name, table[name].combine_chunks().dictionary_encode())
    return table


def _write_source(lake: Path, job_id: str, rank: int, world: int, tile: Tile, times: int) -> Made:
    source_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{job_id}/{rank}"))
    start_ns = day_start_ns(DAY) + 3_600 * SECOND_NS
    writer = SourceWriter(raw_root(lake), DAY.isoformat(), job_id, source_id)
    rows = {kind: _write_kind(writer, kind, tile, times, start_ns) for kind in tile.tables}
    end_ns = start_ns + times * tile.length_ns
    counts = row_counts(sum(rows.values()))
    opened = {
        **tile.opened,
        "day": DAY,
        "job_id": job_id,
        "attempt": 0,
        "source_id": source_id,
        "rank": rank,
        "world_size": world,
        "window_start_ns": start_ns,
        **{name: [] for name in ("flags", "skipped", "produced", "dropped")},
        "recorder_version": VERSION,
    }
    writer.write("source", source_table(opened, closing(dict(sorted(rows.items())), start_ns, end_ns)))
    writer.close("complete", attempt=0, rows=counts)
    return Made(0, 1, rows, sum(segment.bytes for segment in writer.segments))


def _write_kind(writer: SourceWriter, kind: str, tile: Tile, times: int, start_ns: int) -> int:
    """Segments of whole repetitions, as large as a recorder's."""
    base = tile.tables[kind]
    wanted = range(0, times, SAMPLED_EVERY if kind == "sample" else 1)
    together = max(1, SEGMENT_ROWS // base.num_rows)
    written = 0
    for first in range(0, len(wanted), together):
        numbers = wanted[first : first + together]
        rows = pa.concat_tables([_shifted(kind, base, tile, number, start_ns) for number in numbers])
        writer.write(kind, rows)
        written += rows.num_rows
    return written


def _shifted(kind: str, base: pa.Table, tile: Tile, number: int, start_ns: int) -> pa.Table:
    """The rows of one repetition: later, and with ids of their own."""
    later = start_ns + number * tile.length_ns
    by: dict[str, int] = {"start_ns": later, "at_ns": later, "monotonic_ns": later, "event_id": number * base.num_rows,
                          "correlation_id": number * tile.ids, "sequence": number * base.num_rows}  # fmt: skip
    table = _jittered(base, number) if kind in ("kernel", "launch") else base
    for name in set(by) & set(base.column_names):
        table = _set(table, name, pc.add(table[name], by[name]))
    if kind == "annotation":
        table = _set(table, "text", _renumbered(table["text"].to_pylist(), number))
    return table


def _jittered(table: pa.Table, number: int) -> pa.Table:
    """Starts up to a tenth later, lengths up to a fifth shorter: no two repetitions are equal, and no order changes."""
    length, count = table["duration_ns"], table.num_rows
    late, short = (
        pc.cast(
            pc.floor(pc.multiply(pc.random(count, initializer=2 * number + draw), pc.multiply(length, share))), "int64"
        )
        for draw, share in ((0, 0.1), (1, 0.1))
    )
    moved = _set(table, "start_ns", pc.add(table["start_ns"], late))
    return _set(moved, "duration_ns", pc.subtract(length, pc.add(late, short)))


def _renumbered(texts: list[str], number: int) -> pa.Array:
    """Steps go on counting: `step_3` of the second repetition is step 9."""
    rename: Callable[[str], str] = lambda text: (  # noqa: E731
        f"{head}_{int(tail) + number * TILE_STEPS}"
        if (parts := text.rpartition("_"))[1] and (head := parts[0]) and (tail := parts[2]).isdigit()
        else text
    )
    return pa.array([rename(text) for text in texts])


def _set(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)
