"""Great Expectations suite of a table, as plain dictionaries; nothing here imports great_expectations."""

from __future__ import annotations

from typing import Any

from tracelake.schemas.model import Table


def suite(declared: Table) -> list[dict[str, Any]]:
    """One expectation per check of the declaration: the column set, required columns, row checks, the key.

    Each is `type`, `kwargs`, `severity` and `meta`, which Great Expectations 1 takes as they are.
    """
    expectations = [_expectation("expect_table_columns_to_match_set", {"column_set": list(declared.column_names)})]
    for column in declared.columns:
        if not column.nullable:
            expectations.append(_expectation("expect_column_values_to_not_be_null", {"column": column.name}))
        for check in column.checks:
            kwargs = {"column": column.name, **{k: list(v) if isinstance(v, tuple) else v for k, v in check.arguments}}
            severity = "critical" if check.severity.value == "fail" else "warning"
            expectations.append(_expectation(check.expectation, kwargs, severity, {"check": check.id}))
    if all(not declared.column(name).nullable for name in declared.key):
        if len(declared.key) == 1:
            expectations.append(_expectation("expect_column_values_to_be_unique", {"column": declared.key[0]}))
        else:
            expectations.append(
                _expectation("expect_compound_columns_to_be_unique", {"column_list": list(declared.key)})
            )
    if not declared.may_be_empty:
        expectations.append(_expectation("expect_table_row_count_to_be_between", {"min_value": 1}))
    return expectations


def _expectation(
    kind: str, kwargs: dict[str, Any], severity: str = "critical", meta: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity, "meta": meta or {}}
