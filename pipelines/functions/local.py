"""A few rows of the driver as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def local_frame(spark: SparkSession, fields: str, rows: Sequence[Sequence[Any]]) -> DataFrame:
    """Rows with `fields` (DDL) as a frame that plans as what it is: a constant.

    From lists, Spark would start a Python process beside each executor for it, and could not see that it is empty.
    """
    declared = StructType.fromDDL(fields)
    assert isinstance(declared, StructType)
    schema = to_arrow_schema(declared)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))
