"""What a page reads: columns that the tables declare, escaped ids, bounded lists."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from types import ModuleType
from typing import Any

import pytest

from tracelake.reports import cause_rows, metric_rows, read, read_causes, record_rows, sql
from tracelake.reports.data import UnknownJobError, job_data
from tracelake.schemas import catalog

_TYPES = [
    t
    for module in (cause_rows, metric_rows, record_rows)
    for t in vars(module).values()
    if inspect.isclass(t) and hasattr(t, "TABLE")
]
_COMPUTED = {"device_count", "source_count", "step_count", "entry_count"}


@pytest.mark.parametrize("row_type", _TYPES, ids=lambda t: t.__name__)
def test_the_columns_of_a_row_are_declared(row_type: Any) -> None:
    declared = {c.name for c in catalog.table(row_type.TABLE).columns}
    joined = set(getattr(row_type, "JOINED", ()))
    assert {f.name for f in fields(row_type)} - joined - _COMPUTED <= declared | _COMPUTED


@pytest.mark.parametrize("job_id", ["x' OR 'a'='a", "\\", "${env:HOME}", "naïve\n😀", '"`;--'])
def test_a_literal_cannot_leave_its_quotes(job_id: str) -> None:
    inner = sql.literal(job_id)[1:-1]
    assert not re.search(r"['$\n]", inner)
    decoded = re.sub(r"\\u([0-9A-F]{4})|\\U([0-9A-F]{8})", lambda m: chr(int(m[1] or m[2], 16)), inner)
    assert decoded == job_id


def test_an_unknown_job_is_one_clear_line() -> None:
    with pytest.raises(UnknownJobError, match="the lake has no job 'nope'"):
        job_data(lambda _: [], "nope")


def _functions(module: ModuleType) -> list[tuple[str, Any]]:
    return [(n, f) for n, f in inspect.getmembers(module, inspect.isfunction) if f.__module__ == module.__name__]


def test_every_list_is_bounded() -> None:
    """Each query of a list ends in a LIMIT, groups by a column of few values, or is one row."""
    asked: list[str] = []

    def query(text: str) -> list[dict[str, Any]]:
        asked.append(text)
        return []

    for name, function in (*_functions(read), *_functions(read_causes)):
        parameters = list(inspect.signature(function).parameters)
        if parameters[:2] == ["query", "here"] and len(parameters) == 2:
            asked.clear()
            function(query, "true")
            assert re.search(r"LIMIT \d+|GROUP BY kernel_class", asked[-1]), name
