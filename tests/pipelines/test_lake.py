"""A lake that an older version wrote opens, and grows only by what is declared."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tracelake.pipelines.lake import Lake, LakeUnusable
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import raw_root
from tracelake.schemas.render.arrow import arrow_schema
from tracelake.schemas.render.spark import ddl

SOURCES = table("normalized.sources")
ADDED = ("capture", "capture_reason")


def _older(lake: Lake, rows: DataFrame) -> None:
    rows.write.format("delta").partitionBy("day").save(lake.path(SOURCES))


def _stored(lake: Lake, spark: SparkSession) -> DataFrame:
    return spark.read.format("delta").load(lake.path(SOURCES))


def test_columns_added_since_are_null_until_the_first_write_adds_them(
    spark: SparkSession, rows: object, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    _older(lake, rows(SOURCES, {"job_id": "a", "process_id": 1}, {"job_id": "b"}).drop(*ADDED))
    read = lake.read(spark, SOURCES.name)
    assert tuple(read.columns) == SOURCES.column_names
    assert [tuple(row) for row in read.select(*ADDED).distinct().collect()] == [(None, None)]
    lake.replace(rows(SOURCES, {"job_id": "b", "capture": "cupti"}), SOURCES, "job_id = 'b'")
    again = lake.read(spark, SOURCES.name).orderBy("job_id").select("job_id", "process_id", *ADDED).collect()
    assert [tuple(row) for row in again] == [("a", 1, None, None), ("b", None, "cupti", None)]
    assert set(_stored(lake, spark).columns) == set(SOURCES.column_names)


def test_nothing_else_changes_by_itself(spark: SparkSession, rows: object, tmp_path: Path) -> None:
    whole = rows(SOURCES, {"job_id": "a"})
    retyped, short, newer = Lake(tmp_path / "retyped"), Lake(tmp_path / "short"), Lake(tmp_path / "newer")
    _older(retyped, whole.withColumn("process_id", whole.process_id.cast("int")))
    _older(short, whole.drop("status"))
    _older(newer, whole.withColumn("colour", whole.status))
    for act in (
        lambda: retyped.read(spark, SOURCES.name),
        lambda: retyped.replace(whole, SOURCES, "job_id = 'a'"),
    ):
        with pytest.raises(
            LakeUnusable, match=r"normalized\.sources: column process_id is stored as int, and is bigint"
        ):
            act()
    with pytest.raises(LakeUnusable, match=r"has no column status; open the lake with the tracelake that wrote it, or"):
        short.read(spark, SOURCES.name)
    assert tuple(newer.read(spark, SOURCES.name).columns) == SOURCES.column_names
    with pytest.raises(LakeUnusable, match="column colour, which this version does not know; update tracelake"):
        newer.append(whole, SOURCES)
    assert "colour" in _stored(newer, spark).columns


def test_raw_segments_without_newer_columns_are_read(spark: SparkSession, tmp_path: Path) -> None:
    lake, declared = Lake(tmp_path), table("raw.kernel")
    required = [c.name for c in declared.columns if not c.nullable]
    schema = pa.schema([arrow_schema(declared).field(name) for name in required])
    fill = {name: ["x"] if pa.types.is_string(schema.field(name).type) else [1] for name in required}
    path = raw_root(lake.root) / "kernel.parquet"
    path.parent.mkdir(parents=True)
    arrays = [pa.array(fill[f.name], pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    pq.write_table(pa.Table.from_arrays(arrays, names=required), path)
    read = lake.read_raw(spark, "kernel", [str(path)])
    assert read.schema.simpleString() == spark.createDataFrame([], ddl(declared)).schema.simpleString()
    row = read.collect()[0].asDict()
    assert {name for name, value in row.items() if value is not None} == set(required)


def test_a_log_without_a_commit_is_no_table(tmp_path: Path) -> None:
    """A writer that dies before its first commit leaves one."""
    lake = Lake(tmp_path)
    log = Path(lake.path(SOURCES)) / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    assert not lake.exists(SOURCES)
    (log / "00000000000000000000.json").write_text("{}")
    assert lake.exists(SOURCES)
