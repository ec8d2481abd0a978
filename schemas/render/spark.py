"""Spark DDL of a table. Text only: nothing here imports pyspark."""

from __future__ import annotations

from collections.abc import Collection

from tracelake.schemas.model import Check, Column, Severity, Table, View


def ddl(table: Table) -> str:
    """`name type COMMENT '…', …` in declared order, as `StructType.fromDDL` and CREATE TABLE take it."""
    return ", ".join(f"`{c.name}` {c.type.value} COMMENT '{_quoted(c.comment)}'" for c in table.columns)


def create_view(view: View) -> str:
    """The statement that makes a view, comments with it."""
    return _create_view(view.name, view.columns, view.comment, view.sql)


def create_empty(table: Table) -> str:
    """The statement that makes a table's full name where it was never written: a view without rows."""
    columns = ", ".join(_null(c) for c in table.columns)
    return _create_view(table.name, table.columns, _about(table), f"SELECT {columns} WHERE false")


def create_alias(table: Table, absent: Collection[str]) -> str:
    """The statement that makes a table's bare name. Columns that the stored table lacks, `absent`, are NULL."""
    columns = ", ".join(_null(c) if c.name in absent else f"`{c.name}`" for c in table.columns)
    return _create_view(table.short_name, table.columns, _about(table), f"SELECT {columns} FROM {table.name}")


def _null(column: Column) -> str:
    return f"CAST(NULL AS {column.type.value}) AS `{column.name}`"


def _about(table: Table) -> str:
    return f"{table.grain[:1].upper()}{table.grain[1:]}."


def _create_view(name: str, columns: tuple[Column, ...], comment: str, sql: str) -> str:
    named = ", ".join(f"`{c.name}` COMMENT '{_quoted(c.comment)}'" for c in columns)
    return f"CREATE OR REPLACE VIEW {name} ({named}) COMMENT '{_quoted(comment)}' AS {sql}"


def casts(table: Table) -> list[str]:
    """One `CAST(name AS type) AS name` per column, in declared order."""
    return [f"CAST(`{c.name}` AS {c.type.value}) AS `{c.name}`" for c in table.columns]


def row_checks(table: Table, severity: Severity = Severity.FAIL) -> list[tuple[str, str]]:
    """(reason, predicate that must hold) for each row check: required columns first, then the declared ones.

    Checks of several columns that share a reason are one: an impossible time is that in whichever column it stands.
    """
    found: dict[str, str] = {}
    if severity is Severity.FAIL:
        found |= {f"null_{c.name}": f"`{c.name}` IS NOT NULL" for c in table.columns if not c.nullable}
    for column in table.columns:
        for check in column.checks:
            if check.severity is severity:
                code, predicate = reason_of(column, check), _predicate(column.name, check.predicate)
                found[code] = f"{found[code]} AND {predicate}" if code in found else predicate
    return list(found.items())


def reason_of(column: Column, check: Check) -> str:
    """The reason code of a row that breaks a column's check."""
    return check.id if check.id.endswith(("_time", "_duration")) else f"{check.id}:{column.name}"


def _predicate(column: str, predicate: str) -> str:
    # A false predicate fails; one that is NULL does not, since NULL is the business of `nullable`.
    return f"coalesce({predicate.format(column=f'`{column}`')}, true)"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
