"""Events that a file holds more than once: told by everything that they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

KINDS = ("kernel", "memop", "launch")
"""Kinds whose events carry a correlation id. Two ranges of one name may well share a start and an end, in a file whose
times are whole microseconds; two kernels of one launch on one stream cannot."""

# Odd constants: products that wrap around spread the values over all bits.
_FACTORS = {"start_ns": 0x9E3779B97F4A7C15, "duration_ns": 0xC2B2AE3D27D4EB4F, "correlation_id": 0x965667B19E3779F9}


def copies(read: Callable[[], Iterable[pa.Table]]) -> pa.Array:
    """event_ids of the rows of one kind that repeat an earlier one in every column but that id.

    `read` gives the kind's rows, and is called again only where something repeats. Memory: three numbers a row.
    """
    repeated = _repeated(pa.chunked_array([_hashes(_linked(rows)) for rows in read()], pa.int64()))
    if not len(repeated):
        return pa.array([], pa.int64())
    seen: set[tuple[object, ...]] = set()
    found: list[int] = []
    for rows in map(_linked, read()):
        for row in rows.filter(pc.is_in(_hashes(rows), repeated)).to_pylist():
            number = row.pop("event_id")
            said = tuple(row.values())
            if said in seen:
                found.append(number)
            seen.add(said)
    return pa.array(found, pa.int64())


def _linked(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.greater(pc.fill_null(rows["correlation_id"], 0), 0))


def _hashes(rows: pa.Table) -> pa.Array:
    """A number for each row that equal rows share."""
    total = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    for name, factor in _FACTORS.items():
        values = pc.fill_null(rows[name], 0).combine_chunks().cast(pa.int64())
        total = pc.bit_wise_xor(total, pc.multiply(values, pa.scalar(factor - (1 << 64), pa.int64())))
    return total


def _repeated(hashes: pa.ChunkedArray) -> pa.Array:
    if len(hashes) < 2:
        return pa.array([], pa.int64())
    ordered = hashes.take(pc.sort_indices(hashes)).combine_chunks()
    return ordered[1:].filter(pc.equal(ordered[1:], ordered[:-1])).unique()
