"""Small helpers to write Spark SQL by hand: safe literals, column lists, rows turned into dataclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any, TypeVar

Query = Callable[[str], list[dict[str, Any]]]
"""Runs one Spark SQL text over the lake's tables and returns its rows, a dict per row."""

Row = TypeVar("Row")

ByJob = Mapping[str, tuple[Row, ...]]
"""Rows of many jobs, by job; a job without any is not in it."""

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


def among(names_: Sequence[str], rows: Iterable[Sequence[str | int | None]]) -> str:
    """A condition: the columns hold one of the rows. A NULL equals nothing.

    >>> among(("job_id", "rank"), [("a", 0), ("b", None)]), among(("job_id",), [])
    ("(job_id, rank) IN (('a', 0))", 'false')
    """
    known = [_tuple(row) for row in rows if None not in row]
    return f"({', '.join(names_)}) IN ({', '.join(known)})" if known else "false"


def given(names_: Sequence[str], rows: Iterable[Sequence[str | int | None]]) -> str:
    """Rows of the driver as a query, at least one."""
    return f"SELECT * FROM VALUES {', '.join(map(_tuple, rows))} AS given({', '.join(names_)})"


def _tuple(row: Sequence[str | int | None]) -> str:
    return (
        "(" + ", ".join("NULL" if v is None else literal(v) if isinstance(v, str) else str(int(v)) for v in row) + ")"
    )


def columns(row_type: type) -> tuple[str, ...]:
    """Names of a row type's fields: the columns that it reads."""
    return tuple(f.name for f in fields(row_type))


def names(row_type: type, prefix: str = "", *, without: Iterable[str] = ()) -> str:
    """The quoted column list of a row type; some names, such as user, are also words of SQL."""
    left_out = set(without)
    return ", ".join(f"{prefix}`{c}`" for c in columns(row_type) if c not in left_out)


def table(row_type: Any) -> str:
    """The bare name of a row type's table: pages of many jobs read views of their rows under it."""
    return str(row_type.TABLE).rpartition(".")[2]


def rows_of(row_type: Any, where: str) -> str:
    """Rows of a row type, with their job, as a query."""
    wanted = ", ".join(f"`{c}`" for c in dict.fromkeys(("job_id", *columns(row_type))))
    return f"SELECT {wanted} FROM {table(row_type)} WHERE {where}"


def first(rows: str, order: str, most: int) -> str:
    """The first rows of each job, as a query."""
    return f"SELECT * EXCEPT (place) FROM ({_placed(rows, order)}) WHERE place <= {most}"


def beyond(rows: str, order: str, most: int) -> str:
    """The other rows of each job, as a query."""
    return f"SELECT * EXCEPT (place) FROM ({_placed(rows, order)}) WHERE place > {most}"


def _placed(rows: str, order: str, job: str = "job_id") -> str:
    return f"SELECT *, row_number() OVER (PARTITION BY {job} ORDER BY {order}) AS place FROM ({rows})"


def by_job(query: Query, row_type: type[Row], rows: str, order: str, most: int, *, job: str = "job_id") -> ByJob[Row]:
    """The first rows of each job in order; `job` is the column that holds it."""
    wanted = columns(row_type)
    listed = ", ".join(f"`{c}`" for c in dict.fromkeys((job, *wanted)))
    answer = query(f"SELECT {listed}, place FROM ({_placed(rows, order, job)}) WHERE place <= {most}")
    # On the driver: a sort of all in Spark would be one more pass.
    answer.sort(key=lambda row: (row[job], row["place"]))
    return {
        job_id: tuple(row_type(**{c: row[c] for c in wanted}) for row in its)
        for job_id, its in groupby(answer, key=lambda row: str(row[job]))
    }


def fetch(query: Query, row_type: type[Row], sql: str) -> tuple[Row, ...]:
    """Run a query and keep the columns that the row type has."""
    wanted = columns(row_type)
    return tuple(row_type(**{c: row[c] for c in wanted}) for row in query(sql))
