"""The checks of a table as numbers that must lie within limits, and the Great Expectations suite over those numbers.

A metrics row has one number per check, for one job or one window of it, and NULL where there was nothing to evaluate.
Text only: nothing here imports great_expectations or pyspark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tracelake.schemas.model import Column, Identity, Severity, Table
from tracelake.schemas.render.spark import reason_of, row_checks


class Kind(str, Enum):
    """What a check is about. All but `row` are about a table as a whole, and stop publication where they fail."""

    ROWS = "rows"
    SHARE = "share"
    KEY = "key"
    IDENTITY = "identity"
    ROW = "row"


@dataclass(frozen=True, slots=True)
class TableCheck:
    """One number of a metrics row and its limits.

    `aggregate` is the Spark SQL aggregate over a job's stored rows that gives it; for shares `part` and `whole` are the
    sums that it is the ratio of. Rows that broke a `fail` check are no longer in the table: `evaluated` counts, among
    the rows that are, those that the check had something to say about.
    """

    id: str
    kind: Kind
    severity: Severity = Severity.FAIL
    minimum: float | None = None
    maximum: float | None = None
    aggregate: str | None = None
    evaluated: str | None = None
    part: str | None = None
    whole: str | None = None


ROWS, KEY, FAILING = "rows", "key", "failing_rows"


def table_checks(declared: Table, failing_max_ratio: float) -> tuple[TableCheck, ...]:
    """Every check of a declaration: its rows, the share that fails, the key, identities, row checks."""
    least = 0.0 if declared.may_be_empty else 1.0
    whole = (
        TableCheck(ROWS, Kind.ROWS, minimum=least),
        TableCheck(FAILING, Kind.SHARE, maximum=failing_max_ratio),
        *(
            TableCheck(
                each.id, Kind.SHARE, maximum=failing_max_ratio, part=f"sum({each.part})", whole=f"sum({each.whole})"
            )
            for each in declared.shares
        ),
        TableCheck(KEY, Kind.KEY, maximum=0.0),
        *(TableCheck(each.id, Kind.IDENTITY, maximum=0.0, aggregate=_broken(each)) for each in declared.identities),
    )
    return (*whole, *_rows(declared))


def _broken(identity: Identity) -> str:
    return f"sum(CAST(NOT ({identity.predicate}) AS BIGINT))"


def _rows(declared: Table) -> list[TableCheck]:
    columns = _columns(declared)
    failing = [
        TableCheck(code, Kind.ROW, maximum=0.0, evaluated=_evaluated(columns.get(code, ())))
        for code, _ in row_checks(declared)
    ]
    warning = [
        TableCheck(code, Kind.ROW, Severity.WARN, maximum=0.0, aggregate=_warned(predicate, columns[code]))
        for code, predicate in row_checks(declared, Severity.WARN)
    ]
    return failing + warning


def _columns(declared: Table) -> Mapping[str, tuple[Column, ...]]:
    """The columns that the rows breaking a reason code's check would break it in."""
    found: dict[str, tuple[Column, ...]] = {}
    for column in declared.columns:
        for check in column.checks:
            code = reason_of(column, check)
            found[code] = (*found.get(code, ()), column)
    return found


def _evaluated(columns: tuple[Column, ...]) -> str:
    if all(column.nullable for column in columns) and columns:
        return f"count(coalesce({', '.join(f'`{column.name}`' for column in columns)}))"
    return "count(1)"


def _warned(predicate: str, columns: tuple[Column, ...]) -> str:
    known = " OR ".join(f"`{column.name}` IS NOT NULL" for column in columns)
    return f"sum(CASE WHEN {known} THEN CAST(NOT ({predicate}) AS BIGINT) END)"


def suite(declared: Table, failing_max_ratio: float) -> list[dict[str, Any]]:
    """The expectations over a table's metrics rows, one per check, as Great Expectations 1 takes them."""
    return [
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {
                "column": check.id,
                **({"min_value": check.minimum} if check.minimum is not None else {}),
                **({"max_value": check.maximum} if check.maximum is not None else {}),
            },
            "severity": "critical" if check.severity is Severity.FAIL else "warning",
            "meta": {"check": check.id, "kind": check.kind.value},
        }
        for check in table_checks(declared, failing_max_ratio)
    ]
