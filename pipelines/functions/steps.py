"""Steps of a window and of its attempt: the same ones under two numbers."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import ATTEMPT_KEY, SOURCE_KEY
from tracelake.schemas.steps import INFERRED_STEP


def was_written() -> Column:
    """Whether an annotation is the program's: inferred steps are not."""
    return ~F.coalesce("is_inferred", F.lit(False))


def numbered_steps(ranges: DataFrame, step_ledger: DataFrame) -> DataFrame:
    """(job_id, source_id, step_name, own_occurrence, step_occurrence): events know a step's number in their window,
    aggregates its number in the attempt."""
    own = ranges.filter("is_step").select(
        *SOURCE_KEY, F.col("name").alias("step_name"), F.col("step_occurrence").alias("own_occurrence"), "start_ns"
    )
    numbered = step_ledger.select(*SOURCE_KEY, "step_name", "start_ns", "step_occurrence")
    return own.join(numbered, [*SOURCE_KEY, "step_name", "start_ns"]).drop("start_ns")


def of_main_step(steps: DataFrame) -> DataFrame:
    """Rows of the step name with most time (duration_ns) in its attempt: numbers about a job's steps are about it.

    Where some windows have marked steps, it is one of those."""
    time = steps.groupBy(*ATTEMPT_KEY, "step_name").agg(F.sum("duration_ns").alias("spent"))
    main = time.groupBy(*ATTEMPT_KEY).agg(
        F.max_by("step_name", F.struct(F.col("step_name") != INFERRED_STEP, "spent", "step_name")).alias("step_name")
    )
    return steps.join(F.broadcast(main), [*ATTEMPT_KEY, "step_name"])
