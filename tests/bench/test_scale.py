"""The benchmark's DuckDB aggregates are an independent computation of the same definitions: they must agree."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from quick import run

from bench.scale.fleet import write_fleet
from bench.scale.limit import QUERIES, compute
from bench.scale.tables import differing, sizes
from tracelake.pipelines.lake import Lake

JOBS, KERNELS = 3, 16_000


def test_duckdb_computes_the_same_aggregates_from_the_same_raw_files(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    made = write_fleet(lake.root, JOBS, KERNELS)
    done = run(lake, spark)
    assert done.rows["read"] == made.events
    assert not done.checks["failed"]
    db = compute(lake.root, tmp_path)
    for name in QUERIES:
        assert db.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0], name
    assert differing(lake.root, db) == {}
    kept = sizes(lake.root)
    assert kept["normalized.kernels"]["rows"] == made.rows["kernel"] >= JOBS * KERNELS
    assert kept["normalized.launches"]["rows"] == made.rows["launch"]
