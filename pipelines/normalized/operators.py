"""Operators that launched device work: for each launch, the innermost operator open on its thread."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import innermost, nested
from tracelake.pipelines.functions.where import SOURCE_KEY, with_where


def operators(source: DataFrame, operator: DataFrame, launches: DataFrame) -> DataFrame:
    """One row per launch inside an operator. Operators that launch nothing stay in raw only."""
    thread = [*SOURCE_KEY, "thread_id"]
    ranges = operator.withColumn("id", F.col("event_id")).withColumn("end_ns", F.col("start_ns") + F.col("duration_ns"))
    calls = launches.select(*thread, "launch_id", F.col("start_ns").alias("at_ns"))
    nest = nested(ranges.select(*thread, "id", "start_ns", "end_ns"), thread)
    found = innermost(calls, nest, thread, "operator_id").filter("operator_id IS NOT NULL")
    named = ranges.withColumnRenamed("event_id", "operator_id").drop("id", "thread_id")
    joined = found.drop("at_ns").join(named, [*SOURCE_KEY, "operator_id"])
    return with_where(joined, source)
