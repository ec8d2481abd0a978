"""Rows for tests: only the columns that matter are named, the rest is filled from the declaration."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tracelake.schemas.model import Table, Type

_FILL: dict[Type, Any] = {
    Type.BIGINT: 0,
    Type.INT: 0,
    Type.DOUBLE: 0.0,
    Type.STRING: "x",
    Type.BOOLEAN: False,
    Type.DATE: dt.date(2026, 1, 2),
    Type.STRINGS: [],
    Type.BIGINTS: [],
    Type.MAP: {},
}


def filled(declared: Table, given: dict[str, Any]) -> tuple[Any, ...]:
    """One row in declared order: given values, NULL for other nullable columns, else a neutral value.

    Raises KeyError for a column that the table does not have.
    """
    for name in given:
        declared.column(name)
    return tuple(given[c.name] if c.name in given else None if c.nullable else _FILL[c.type] for c in declared.columns)
