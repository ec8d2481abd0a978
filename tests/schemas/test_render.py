"""What declarations turn into."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tracelake.schemas.catalog import table, tables
from tracelake.schemas.render.arrow import arrow_schema
from tracelake.schemas.render.dictionary import dictionary
from tracelake.schemas.render.expectations import suite
from tracelake.schemas.render.rows import filled
from tracelake.schemas.render.spark import ddl, row_checks

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", list(tables()))
def test_arrow_and_spark_name_the_same_columns(spark: SparkSession, name: str) -> None:
    declared = table(name)
    struct = StructType.fromDDL(ddl(declared))
    assert struct.names == list(arrow_schema(declared).names) == list(declared.column_names)
    assert [f.metadata["comment"] for f in struct.fields] == [c.comment for c in declared.columns]


def test_arrow_types_are_exact() -> None:
    fields = {field.name: str(field.type) for field in arrow_schema(table("raw.kernel"))}
    assert (fields["start_ns"], fields["occupancy_ratio"], fields["name"]) == ("int64", "double", "string")


def test_row_checks_of_raw_events_name_the_three_impossible_times() -> None:
    codes = {code for code, _ in row_checks(table("raw.kernel"))}
    assert {"zero_time", "sentinel_time", "negative_duration"} <= codes


def test_a_suite_has_every_declared_check() -> None:
    declared = table("normalized.kernels")
    rendered = suite(declared)
    assert sum(bool(each["meta"].get("check")) for each in rendered) == sum(len(c.checks) for c in declared.columns)
    assert rendered[0]["kwargs"]["column_set"] == list(declared.column_names)
    assert {"type", "kwargs", "severity", "meta"} == set(rendered[0])


def test_filled_rows_hold() -> None:
    row = filled(table("normalized.kernels"), {"name": "k", "duration_ns": 5})
    assert len(row) == len(table("normalized.kernels").columns)
    with pytest.raises(KeyError, match="no column nmae"):
        filled(table("normalized.kernels"), {"nmae": "k"})


def test_the_data_dictionary_is_fresh() -> None:
    assert (ROOT / "docs" / "dictionary.md").read_text() == dictionary(), "run `make docs`"
