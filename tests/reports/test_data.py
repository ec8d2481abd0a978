"""What a page reads: columns that the tables declare, escaped ids, bounded lists."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from types import ModuleType
from typing import Any

import pytest
import sample_data

from tracelake.reports import cause_rows, metric_rows, read, read_causes, read_steps, record_rows, sql
from tracelake.reports.cause_rows import RankStat
from tracelake.reports.checks import checks_data
from tracelake.reports.data import TABLES, TABLES_OF_ALL, Chosen, UnknownJobError, choose, job_data, jobs_data
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


class Asked(list[str]):
    """The texts of queries, which find nothing."""

    def __call__(self, text: str) -> list[dict[str, Any]]:
        self.append(text)
        return []


def test_every_list_is_bounded() -> None:
    """Each query of a list keeps so many rows of each job, one per class, or one row."""
    asked = Asked()
    for name, function in (*_functions(read), *_functions(read_causes), *_functions(read_steps)):
        parameters = list(inspect.signature(function).parameters)
        if parameters[:1] == ["query"] and len(parameters) == 2:
            function(asked, "true")
            assert re.search(r" WHERE place <= \d+$", asked[-1]), name


def test_the_tables_that_pages_read_are_those_named() -> None:
    """Pages see no others; the named ones are looked for before any page is read."""
    job, asked = sample_data.dlrm(), Asked()
    job_id = job.job.job_id
    choose(asked, [job_id])
    assert _read_tables(asked) == {_bare(name) for name in TABLES_OF_ALL}
    asked.clear()
    jobs_data(asked, [Chosen(job.job, job.summary)])
    checks_data(asked, [job])
    read_causes.collective_waits(asked, "true")
    ranks = {job_id: (RankStat(0, None, 1, 1, None, None, None, None, None),)}
    read_causes.rank_excess(asked, "true", {job_id: job.step_groups[0]}, ranks)
    assert _read_tables(asked) == {_bare(name) for name in (*TABLES, *TABLES_OF_ALL)}
    assert {*TABLES, *TABLES_OF_ALL} <= set(catalog.tables())


def _bare(name: str) -> str:
    return name.rpartition(".")[2]


def _read_tables(texts: list[str]) -> set[str]:
    named = {found for text in texts for found in re.findall(r"\b(\w+) AS \(\s", text)}
    return {found for text in texts for found in re.findall(r"\b(?:FROM|JOIN) (\w+)", text)} - {"VALUES", *named}
