"""What two lakes must share: rows of every table, and a sum over them that knows no order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.lake import Lake
from tracelake.schemas.catalog import tables
from tracelake.schemas.model import Column, Table, Type

OF_THE_RUN = ("run_id", "taken_ns")
COMPARED = [declared for name, declared in tables().items() if declared.layer != "raw" and name != "operations.runs"]
Checksums = dict[str, tuple[int, int]]


def checksums(lake: Lake, spark: SparkSession) -> Checksums:
    """Rows and an order-free sum of row hashes, per table; what names the run that wrote a row is left out."""
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda declared: _checksum(lake.read(spark, declared.name), declared), COMPARED)
        return dict(zip((declared.name for declared in COMPARED), found, strict=True))


def _checksum(rows: DataFrame, declared: Table) -> tuple[int, int]:
    columns = [_comparable(c) for c in declared.columns if c.name not in OF_THE_RUN]
    hashed = rows.select(F.xxhash64(*columns).cast("decimal(38,0)").alias("hash"))
    row = hashed.agg(F.count("*").alias("rows"), F.coalesce(F.sum("hash"), F.lit(0)).alias("sum")).first()
    assert row is not None
    return int(row["rows"]), int(row["sum"])


def _comparable(column: Column) -> SparkColumn:
    if column.type is Type.MAP:
        return F.to_json(F.array_sort(F.map_entries(column.name)))
    # A mean's last digit depends on the order in which its values come.
    return F.round(column.name, 9) if column.type is Type.DOUBLE else F.col(column.name)
