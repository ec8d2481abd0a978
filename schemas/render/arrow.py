"""Arrow schema and Parquet encodings of a table, for what writes raw segments."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tracelake.schemas.model import Table, Type

_TYPES: dict[Type, pa.DataType] = {
    Type.BIGINT: pa.int64(),
    Type.INT: pa.int32(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.DATE: pa.date32(),
    Type.STRINGS: pa.list_(pa.string()),
    Type.BIGINTS: pa.list_(pa.int64()),
    Type.MAP: pa.map_(pa.string(), pa.string()),
}
# Sorted or nearly constant within a segment: differences pack into a few bits.
_DELTA = ("event_id", "start_ns", "duration_ns", "correlation_id", "at_ns", "monotonic_ns")
_SKIPPED_BY = ("job_id", "source_id", *_DELTA)
_REPEATED = 4
"""Rows per distinct value from which a dictionary is smaller than differences."""


def arrow_schema(table: Table) -> pa.Schema:
    """Fields in declared order; columns that may not be NULL are required."""
    return pa.schema([pa.field(c.name, _TYPES[c.type], nullable=c.nullable) for c in table.columns])


def parquet_options(table: Table, rows: pa.Table) -> dict[str, object]:
    """Arguments for `pyarrow.parquet.write_table`: delta packing for times and ids, dictionaries for the rest.

    Lengths that come again and again, as those of tools that count whole microseconds do, go into a dictionary too.
    """
    delta = [c.name for c in table.columns if c.name in _DELTA and not _repeats(c.name, rows)]
    flat = [
        c.name for c in table.columns if c.name not in delta and c.type not in (Type.MAP, Type.STRINGS, Type.BIGINTS)
    ]
    return {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": flat,
        "column_encoding": dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        # Those by which readers skip. Of names they would fill the footer: half of a small segment.
        "write_statistics": [c.name for c in table.columns if c.name in _SKIPPED_BY],
        # The Parquet types say it all; Arrow's own copy of the schema would be a third of a small segment.
        "store_schema": False,
    }


def _repeats(name: str, rows: pa.Table) -> bool:
    if name != "duration_ns":
        return False
    distinct: int = pc.count_distinct(rows[name]).as_py()
    return bool(distinct * _REPEATED <= rows.num_rows)
