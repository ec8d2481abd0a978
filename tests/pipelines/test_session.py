"""What the session's settings are for."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from tracelake.pipelines.lake import Lake
from tracelake.schemas.catalog import table

SYNCS = table("normalized.syncs")


def test_one_row_of_a_partitioned_table_keeps_its_columns_under_order_and_limit(
    spark: SparkSession, rows: Any, tmp_path: Any
) -> None:
    lake = Lake(tmp_path)
    lake.append(rows(SYNCS, {"job_id": "a", "event_id": 7}), SYNCS)
    numbered = lake.read(spark, SYNCS.name).withColumn("number", F.row_number().over(Window.orderBy("job_id")))
    row = numbered.filter("kind = 'x'").orderBy("number").limit(20).collect()[0]
    assert (row["job_id"], row["source_id"], row["event_id"], row["number"]) == ("a", "x", 7, 1)
