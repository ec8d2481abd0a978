"""The (name, index) that an annotation's text stands for, and whether it names a step."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.parameters import Parameters

# A trailing number leaves the name together with its separator: "step_12", "ProfilerStep#12", "layer [3]".
_SPLIT = r"^(.*?\S)\s*(?:[_#:/.\- ]+\s*|[_#:/.\- ]*[\[(])(\d{1,18})[\])]?$"
# A step may go without a separator ("step12"), since a pattern says that it is one; "conv1" keeps its number.
_SPLIT_STEP = r"^(.*?[^\d_#:/.\-\[( ])[_#:/.\-\[( ]*(\d{1,18})[\])]?$"


def named(annotation: DataFrame, parameters: Parameters) -> DataFrame:
    """raw.annotation with annotation_id, name, index, end_ns, is_closed and matches_step."""
    text, matches = F.col("text"), _matches(parameters)
    name, index = (
        F.when(matches, F.regexp_extract(text, _SPLIT_STEP, part)).otherwise(F.regexp_extract(text, _SPLIT, part))
        for part in (1, 2)
    )
    return (
        annotation.withColumn("matches_step", names_step(parameters))
        .withColumn("name", F.when(name == "", text).otherwise(name))
        .withColumn("index", F.when(index == "", None).otherwise(index).cast("bigint"))
        .withColumn("end_ns", F.col("start_ns") + F.col("duration_ns"))
        .withColumn("is_closed", F.col("duration_ns").isNotNull())
        .withColumnRenamed("event_id", "annotation_id")
    )


def names_step(parameters: Parameters) -> Column:
    """Whether an annotation is a host range whose whole text matches a step pattern."""
    return _matches(parameters) & (F.col("side") == "host")


def _matches(parameters: Parameters) -> Column:
    matches = F.lit(False)
    for pattern in parameters.step_patterns:
        matches = matches | F.col("text").rlike(f"^(?i:{pattern})$")
    return matches
