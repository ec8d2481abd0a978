"""Great Expectations in its own process: what it says by row, and what becomes of a question that it cannot answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tracelake.pipelines.measures import Measured
from tracelake.pipelines.validation import Asked, Validated, ValidationFailed, Validator
from tracelake.pipelines.verdicts import outcomes
from tracelake.schemas.catalog import table
from tracelake.schemas.render.expectations import suite, table_checks


@pytest.fixture(scope="module")
def validator() -> Iterator[Validator]:
    with Validator() as started:
        yield started


def _between(column: str, **limits: float) -> dict[str, Any]:
    return {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": column, **limits},
        "severity": "critical",
        "meta": {"check": column},
    }


def test_rows_that_break_an_expectation_come_by_number(validator: Validator) -> None:
    rows: list[dict[str, float | None]] = [{"a": 1, "b": 0}, {"a": 0, "b": None}, {"a": 0.5, "b": 3}]
    asked = {"t": Asked([_between("a", min_value=1), _between("b", max_value=0)], rows), "none": Asked([], [])}
    assert validator.validate(asked) == {
        "t": {"a": Validated(frozenset({1, 2})), "b": Validated(frozenset({2}))},
        "none": {},
    }


def test_an_expectation_that_raises_has_not_passed(validator: Validator) -> None:
    good, bad = _between("a", max_value=1), _between("b", min_value=0)
    bad["type"] = "expect_column_values_to_match_regex"  # numbers are no text
    bad["kwargs"] = {"column": "b", "regex": "("}
    said = validator.validate({"t": Asked([good, bad], [{"a": 1, "b": 2}])})["t"]
    assert said["a"] == Validated(frozenset())
    assert said["b"].error


def test_every_table_is_validated_by_as_many_expectations_as_it_has_checks(validator: Validator) -> None:
    for name in ("normalized.kernels", "aggregates.job_summary"):
        wanted = [check.id for check in table_checks(table(name), 0.01)]
        expectations = suite(table(name), 0.01)
        said = validator.validate({name: Asked(expectations, [dict.fromkeys(wanted)])})[name]
        assert list(said) == wanted
        assert set(said.values()) == {Validated(frozenset())}


def test_without_an_answer_every_check_is_an_error() -> None:
    declared = table("normalized.devices")
    row = Measured(declared.name, "j", None, 1, 0, {check.id: 0 for check in table_checks(declared, 0.01)})
    with Validator() as gone:
        os.kill(gone._process.pid, signal.SIGKILL)
        gone._process.wait()
        said = list(outcomes([(declared, [row])], gone, 0.01))
        with pytest.raises(ValidationFailed, match="Great Expectations: "):
            gone.validate({})
    assert {each["outcome"] for each in said} == {"error"}
    assert len(said) == len(table_checks(declared, 0.01))
