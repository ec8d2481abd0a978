"""Native records and journal rows -> Arrow tables of the raw kinds, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracelake.recorder.samplers import Reading
from tracelake.recorder.sidecar.names import Names
from tracelake.recorder.spool import RECORD_BYTES
from tracelake.schemas.apis import launch_or_sync

# CUPTI's numbers: activity kinds, kinds of copies, of memory and of synchronizations.
MEMCPY, MEMSET, DRIVER, RUNTIME, KERNEL, OVERHEAD, MEMCPY2, SYNC, GRAPH = 1, 2, 4, 5, 10, 17, 22, 38, 51
DIRECTIONS = {1: "htod", 2: "dtoh", 3: "htod", 4: "dtoh", 5: "dtod", 6: "dtod", 7: "dtod", 8: "dtod", 9: "htoh",
              10: "ptop"}  # fmt: skip
MEMORY_KINDS = {1: "pageable", 2: "pinned"}
SYNC_KINDS = {1: "event_sync", 2: "stream_wait_event", 3: "stream_sync", 4: "context_sync"}
_NO_STREAM = 0xFFFF


class Native:
    """Turns chunks of native records into tables by raw kind; times stay on the monotonic clock."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._apis: dict[int, tuple[str, str] | None] = {}
        self.threads: dict[int, int] = {}
        self.skipped: dict[str, int] = {}

    def learn_apis(self, apis: Mapping[str, str]) -> None:
        """`apis` maps "domain:cbid" to the function's name."""
        for key, name in apis.items():
            domain, cbid = key.split(":")
            self._apis[int(domain) << 24 | int(cbid)] = launch_or_sync(name)

    def learn_thread(self, ident: int, native_id: int) -> None:
        """CUPTI knows a thread by the low half of its pthread id."""
        self.threads[ident & 0xFFFFFFFF] = native_id

    def tables(self, data: bytes) -> dict[str, pa.Table]:
        """Rows by raw kind, with the columns of `raw.<kind>` that a record holds; names as dictionaries."""
        self._names.refresh()
        records = _columns(data)
        kinds = set(pc.unique(records["kind"]).to_pylist())
        made: dict[str, list[pa.Table]] = {}
        for kind in sorted(kinds):
            rows = records.filter(pc.equal(records["kind"], kind))
            for raw, table in self._of_kind(kind, rows):
                made.setdefault(raw, []).append(table)
        return {raw: pa.concat_tables(tables) for raw, tables in made.items()}

    def _of_kind(self, kind: int, rows: pa.Table) -> Iterable[tuple[str, pa.Table]]:
        if kind in (KERNEL, GRAPH):
            yield "kernel", self._kernels(rows, kind)
        elif kind in (MEMCPY, MEMCPY2, MEMSET):
            yield "memop", _memops(rows, kind)
        elif kind == SYNC:
            yield "sync", self._syncs(rows)
        elif kind in (RUNTIME, DRIVER):
            yield from self._calls(rows, kind)
        else:
            self._skip("overhead" if kind == OVERHEAD else f"kind_{kind}", rows.num_rows)

    def _skip(self, category: str, count: int) -> None:
        self.skipped[category] = self.skipped.get(category, 0) + count

    def _kernels(self, rows: pa.Table, kind: int) -> pa.Table:
        names = _constant("cudaGraph", rows.num_rows) if kind == GRAPH else _named(rows["name"], self._names.of)
        return _event(rows, name=names, **_place(rows), correlation_id=rows["corr"],
                      grid_count=_positive(rows["a"]), block_count=_positive(rows["b"]))  # fmt: skip

    def _syncs(self, rows: pa.Table) -> pa.Table:
        kinds = _named(rows["name"], lambda number: SYNC_KINDS.get(number, f"sync_{number}"))
        place = {"stream_id": _stream(rows["stream"]), "device_index": rows["device"]}
        return _event(rows, kind=kinds, thread_id=pa.nulls(rows.num_rows, pa.int64()), **place,
                      correlation_id=rows["corr"])  # fmt: skip

    def _calls(self, rows: pa.Table, domain: int) -> Iterable[tuple[str, pa.Table]]:
        cbids = rows["name"].combine_chunks()
        thread = self._thread(rows["a"])
        known = {cbid: self._apis.get(domain << 24 | cbid) for cbid in pc.unique(cbids).to_pylist()}
        for raw in ("launch", "sync"):
            wanted = {cbid: found[1] for cbid, found in known.items() if found is not None and found[0] == raw}
            if not wanted:
                continue
            mask = pc.is_in(cbids, pa.array(list(wanted), cbids.type))
            part = rows.append_column("thread", thread).filter(mask)
            name = _named(part["name"], lambda cbid, names=wanted: names[cbid])
            if raw == "launch":
                yield raw, _event(part, api_name=name, thread_id=part["thread"], correlation_id=part["corr"])
            else:
                empty = pa.nulls(part.num_rows, pa.int64())
                yield raw, _event(part, kind=name, thread_id=part["thread"], stream_id=empty, device_index=empty,
                                  correlation_id=part["corr"])  # fmt: skip
        neither = [cbid for cbid, found in known.items() if found is None]
        if neither:
            count = pc.sum(pc.is_in(cbids, pa.array(neither, cbids.type))).as_py()
            self._skip("other_api", count or 0)

    def _thread(self, idents: pa.ChunkedArray) -> pa.ChunkedArray:
        if not self.threads:
            return idents.cast(pa.int64())
        place = pc.index_in(idents, pa.array(list(self.threads), idents.type))
        native = pc.take(pa.array(list(self.threads.values()), pa.int64()), place)
        return pc.coalesce(native, idents.cast(pa.int64()))


def _columns(data: bytes) -> pa.Table:
    """The fields of packed records. Strided views are copied in C, a column at a time."""
    view = memoryview(data)
    count = len(data) // RECORD_BYTES
    bytes_, halves, words, longs = view, view.cast("H"), view.cast("I"), view.cast("q")

    def column(cast: memoryview, first: int, kind: pa.DataType) -> pa.Array:
        stride = RECORD_BYTES // cast.itemsize
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(cast[first::stride].tobytes())])

    return pa.table({
        "kind": column(bytes_, 0, pa.uint8()), "device": column(bytes_, 1, pa.uint8()),
        "stream": column(halves, 1, pa.uint16()), "name": column(words, 1, pa.uint32()),
        "start_ns": column(longs, 1, pa.int64()), "duration_ns": column(longs, 2, pa.int64()),
        "corr": column(words, 6, pa.uint32()), "a": column(words, 7, pa.uint32()),
        "b": column(words, 8, pa.uint32()), "c": column(words, 9, pa.uint32()),
    })  # fmt: skip


def _event(rows: pa.Table, **columns: Any) -> pa.Table:
    """Rows with both times and `columns`; numbers as the segments have them, so that tables concatenate."""
    wide = {name: c.cast(pa.int64()) if pa.types.is_integer(c.type) else c for name, c in columns.items()}
    return pa.table({"start_ns": rows["start_ns"], "duration_ns": rows["duration_ns"], **wide})


def _place(rows: pa.Table) -> dict[str, Any]:
    return {"device_index": rows["device"], "stream_id": _stream(rows["stream"])}


def _stream(streams: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(streams, _NO_STREAM), pa.scalar(None, streams.type), streams)


def _positive(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.greater(values, 0), values, pa.scalar(None, values.type))


def _memops(rows: pa.Table, kind: int) -> pa.Table:
    count = rows.num_rows
    size = pc.bit_wise_or(rows["a"].cast(pa.int64()), pc.shift_left(rows["b"].cast(pa.int64()), 32))
    if kind == MEMSET:
        what, direction, memory = "memset", pa.nulls(count, pa.string()), pa.nulls(count, pa.string())
    elif kind == MEMCPY2:
        what, direction, memory = "memcpy", _constant("ptop", count), pa.nulls(count, pa.string())
    else:
        what, direction, memory = "memcpy", _looked_up(rows["name"], DIRECTIONS), _host_memory(rows["c"])
    return _event(rows, kind=_constant(what, count), direction=_text(direction), memory_kind=_text(memory),
                  bytes=size, **_place(rows), correlation_id=rows["corr"])  # fmt: skip


def _host_memory(pair: pa.ChunkedArray) -> pa.ChunkedArray:
    """Kind of the host's side of a copy: the source's where it is the host's, else the destination's."""
    source = _looked_up(pc.bit_wise_and(pair, pa.scalar(0xFF, pair.type)), MEMORY_KINDS)
    return pc.coalesce(source, _looked_up(pc.shift_right(pair, pa.scalar(8, pair.type)), MEMORY_KINDS))


def _looked_up(numbers: pa.ChunkedArray, words: Mapping[int, str]) -> pa.ChunkedArray:
    place = pc.index_in(numbers, pa.array(list(words), numbers.type))
    return pc.take(pa.array(list(words.values())), place)


def _text(column: Any) -> Any:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _named(numbers: pa.ChunkedArray, name: Any) -> pa.DictionaryArray:
    """A dictionary column: each number's name, looked up once per distinct number."""
    encoded = numbers.combine_chunks().dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices, [name(n) for n in encoded.dictionary.to_pylist()])


def _constant(value: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), [value])


def annotation_table(rows: Sequence[tuple[str, int, int, int | None]]) -> pa.Table:
    """raw.annotation from (text, thread id, start_ns, duration_ns or None where it was never closed)."""
    texts, threads, starts, durations = zip(*rows, strict=True)
    empty = pa.nulls(len(rows), pa.int64())
    return pa.table({
        "start_ns": pa.array(starts, pa.int64()), "duration_ns": pa.array(durations, pa.int64()),
        "side": _constant("host", len(rows)), "text": pa.array(texts, pa.string()).dictionary_encode(),
        "thread_id": pa.array(threads, pa.int64()), "device_index": empty, "stream_id": empty,
    })  # fmt: skip


def sample_table(readings: Sequence[Reading]) -> pa.Table:
    """raw.sample or raw.counter; at_ns is added with the window's clock."""
    columns = list(zip(*readings, strict=True))
    texts = {"entity_kind": 1, "entity_id": 2, "metric": 3, "unit": 4, "reason": 7}
    return pa.table({
        "monotonic_ns": pa.array(columns[0], pa.int64()), "value": pa.array(columns[5], pa.float64()),
        "is_valid": pa.array(columns[6], pa.bool_()),
        **{name: pa.array(columns[at], pa.string()).dictionary_encode() for name, at in texts.items()},
    })  # fmt: skip


def finished(kind: str, tables: Sequence[pa.Table], clock_offset_ns: int, first_event_id: int) -> pa.Table:
    """Rows in order of time, on the Unix clock, with their event ids: what a segment holds.

    An instant of 0 stays 0: the tool knew none, and the pipeline sets such rows aside.
    """
    rows = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
    clock = "monotonic_ns" if kind in ("sample", "counter") else "start_ns"
    rows = rows.take(pc.sort_indices(rows, [(clock, "ascending")]))
    shifted = pc.add(rows[clock], clock_offset_ns)
    if clock == "monotonic_ns":
        return rows.append_column("at_ns", shifted)
    shifted = pc.if_else(pc.equal(rows["start_ns"], 0), pa.scalar(0, pa.int64()), shifted)
    rows = rows.set_column(rows.column_names.index("start_ns"), "start_ns", shifted)
    return rows.append_column("event_id", pa.array(range(first_event_id, first_event_id + rows.num_rows), pa.int64()))
