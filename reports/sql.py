"""Small helpers to write Spark SQL by hand: safe literals, column lists, rows turned into dataclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, TypeVar

Query = Callable[[str], list[dict[str, Any]]]
"""Runs one Spark SQL text over the lake's tables and returns its rows, a dict per row."""

Row = TypeVar("Row")

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:/=@+#")


def literal(text: str) -> str:
    r"""A Spark SQL string literal of any text.

    Everything but plain characters is written by its number, so that neither quotes and backslashes nor Spark's own
    ${variable} substitution, which happens before parsing, can change the query.

    >>> literal("o'brien ${env:HOME}")
    "'o\\u0027brien \\u0024\\u007Benv:HOME\\u007D'"
    """
    return "'" + "".join(map(_character, text)) + "'"


def _character(c: str) -> str:
    if c in _PLAIN:
        return c
    return f"\\u{ord(c):04X}" if ord(c) < 0x10000 else f"\\U{ord(c):08X}"


def literals(texts: Iterable[str]) -> str:
    """A parenthesized list for IN; never empty, since IN () is no SQL."""
    return "(" + (", ".join(map(literal, texts)) or "NULL") + ")"


def columns(row_type: type) -> tuple[str, ...]:
    """Names of a row type's fields: the columns that it reads."""
    return tuple(f.name for f in fields(row_type))


def names(row_type: type, prefix: str = "", *, without: Iterable[str] = ()) -> str:
    """The quoted column list of a row type; some names, such as user, are also words of SQL."""
    left_out = set(without)
    return ", ".join(f"{prefix}`{c}`" for c in columns(row_type) if c not in left_out)


def fetch(query: Query, row_type: type[Row], sql: str) -> tuple[Row, ...]:
    """Run a query and keep the columns that the row type has."""
    wanted = columns(row_type)
    return tuple(row_type(**{c: row[c] for c in wanted}) for row in query(sql))
