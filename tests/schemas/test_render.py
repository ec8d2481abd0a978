"""What declarations turn into."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tracelake.schemas.catalog import computed, table, tables
from tracelake.schemas.model import Severity
from tracelake.schemas.render.arrow import arrow_schema
from tracelake.schemas.render.dictionary import dictionary
from tracelake.schemas.render.expectations import suite, table_checks
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


@pytest.mark.parametrize("name", list(computed()))
def test_a_suite_has_every_declared_check(name: str) -> None:
    declared = table(name)
    checks = table_checks(declared, 0.02)
    ids = [check.id for check in checks]
    assert len(set(ids)) == len(ids)
    assert ids[:3] == ["rows", "failing_rows", "set_aside" if declared.shares else "key"]
    assert {each.id for each in declared.identities} <= set(ids)
    assert {code for severity in Severity for code, _ in row_checks(declared, severity)} <= set(ids)
    rendered = suite(declared, 0.02)
    assert [each["meta"]["check"] for each in rendered] == ids == [each["kwargs"]["column"] for each in rendered]
    assert rendered[1]["kwargs"]["max_value"] == 0.02
    assert rendered[0]["kwargs"]["min_value"] == (0 if declared.may_be_empty else 1)
    assert {"type", "kwargs", "severity", "meta"} == set(rendered[0])


def test_checks_of_several_columns_that_share_a_reason_are_one() -> None:
    found = [check for check in table_checks(table("normalized.annotations"), 0.01) if check.id == "sentinel_time"]
    assert [check.evaluated for check in found] == ["count(1)"]
    predicate = dict(row_checks(table("normalized.annotations")))["sentinel_time"]
    assert "`start_ns`" in predicate
    assert "`end_ns`" in predicate


def test_identities_name_columns_of_their_table(spark: SparkSession) -> None:
    for declared in tables().values():
        empty = spark.createDataFrame([], StructType.fromDDL(ddl(declared)))
        for each in declared.identities:
            assert empty.selectExpr(each.predicate).schema[0].dataType.simpleString() == "boolean"


def test_filled_rows_hold() -> None:
    row = filled(table("normalized.kernels"), {"name": "k", "duration_ns": 5})
    assert len(row) == len(table("normalized.kernels").columns)
    with pytest.raises(KeyError, match="no column nmae"):
        filled(table("normalized.kernels"), {"nmae": "k"})


def test_the_data_dictionary_is_fresh() -> None:
    assert (ROOT / "docs" / "dictionary.md").read_text() == dictionary(), "run `make docs`"
