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


def create_alias(table: Table, absent: Collection[str]) -> str:
    """The statement that makes a table's bare name. Columns that the stored table lacks, `absent`, are NULL.

    A table that was never written lacks them all, and has no rows.
    """
    columns = [
        f"CAST(NULL AS {c.type.value}) AS `{c.name}`" if c.name in absent else f"`{c.name}`" for c in table.columns
    ]
    source = f"FROM {table.name}" if len(absent) < len(columns) else "WHERE false"
    comment = f"{table.grain[:1].upper()}{table.grain[1:]}."
    return _create_view(table.short_name, table.columns, comment, f"SELECT {', '.join(columns)} {source}")


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
