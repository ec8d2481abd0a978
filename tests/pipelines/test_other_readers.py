"""The tables are open: delta-rs and DuckDB read what Spark wrote, and find the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth
from tracelake.schemas.catalog import table

SUMS = {
    "normalized.kernels": "count(*), sum(duration_ns), min(start_ns), count(step_name), count(DISTINCT day)",
    "normalized.jobs": "count(*), sum(attempt_count), min(created_ns), count(exit_code), count(DISTINCT user)",
    "normalized.samples": "count(*), sum(at_ns % 1000), min(value), count(value), count(DISTINCT metric)",
    "aggregates.device_ledger": "count(*), sum(idle_ns), max(gpu_active_ratio), count(reason), count(DISTINCT scope)",
}


def _numbers(row: Any) -> list[float]:
    return [float(value) for value in row]


@pytest.mark.parametrize("name", list(SUMS))
def test_the_same_counts_and_sums(spark: SparkSession, small_fleet: tuple[Lake, Truth], name: str) -> None:
    lake, _ = small_fleet
    lake.read(spark, name).createOrReplaceTempView("asked")
    by_spark = _numbers(spark.sql(f"SELECT {SUMS[name]} FROM asked").first())
    spark.catalog.dropTempView("asked")

    delta = DeltaTable(lake.path(table(name)))
    asked = delta.to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("asked", asked)
        (found,) = connection.execute(f"SELECT {SUMS[name]} FROM asked").fetchall()
    assert _numbers(found) == by_spark
    assert delta.to_pyarrow_table().num_rows == by_spark[0]
    assert tuple(asked.schema.names) == table(name).column_names


def test_only_current_files_are_read(spark: SparkSession, small_fleet: tuple[Lake, Truth]) -> None:
    """Writing a job anew leaves the old files beside the new ones; the log tells a reader which count."""
    lake, _ = small_fleet
    declared = table("aggregates.job_summary")
    before = DeltaTable(lake.path(declared))
    lake.replace(lake.read(spark, declared.name), declared, "true")
    after = DeltaTable(lake.path(declared))
    assert after.version() == before.version() + 1
    assert after.to_pyarrow_table().num_rows == before.to_pyarrow_table().num_rows == 2
    assert not set(after.file_uris()) & set(before.file_uris())


def test_the_example_in_the_docs(
    small_fleet: tuple[Lake, Truth], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "queries.md").read_text()
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.S) if "duckdb" in code]
    (tmp_path / "lake").symlink_to(small_fleet[0].root)
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    assert "gemm" in capsys.readouterr().out
