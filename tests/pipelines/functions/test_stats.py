"""Statistics by counts of equal values, against Spark's own."""

from __future__ import annotations

import random

from expect import small_data
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.functions.stats import duration_columns, durations, spread


def test_counting_equal_values_first_changes_no_statistic(spark: SparkSession) -> None:
    rng = random.Random(5)
    rows = [(f"k{key}", rng.choice((rng.randint(0, 9), 10**12 + rng.randint(0, 3), None))) for key in range(40)
            for _ in range(rng.choice((1, 2, 3, 99, 100, 101, 200)))]  # fmt: skip
    with small_data(spark):
        events = spark.createDataFrame(rows, "key string, duration_ns bigint")
        direct = events.groupBy("key").agg(F.count("duration_ns").alias("times"), *durations()).filter("times > 0")
        counted = spread(events, ["key"], "duration_ns", "duration")
        mine = counted.select("key", F.col("duration_count").alias("times"), *duration_columns())
        assert {tuple(row) for row in mine.collect()} == {tuple(row) for row in direct.collect()}
