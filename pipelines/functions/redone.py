"""Steps whose work was lost: an attempt did them, and the next one did them again."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_NAMED = ["job_id", "attempt", "step_name"]


def redone_of(step_ledger: DataFrame) -> DataFrame:
    """The rows of the step ledger whose number in the name comes again in the next attempt.

    Only where an attempt's numbers never come twice: else they start again with each epoch and tell nothing.
    """
    steps = step_ledger.filter("step_index IS NOT NULL")
    by_rank = steps.groupBy(*_NAMED, "rank").agg(
        (F.count("*") == F.count_distinct("step_index")).alias("is_once"),
        F.min("step_index").alias("from"),
        F.max("step_index").alias("to"),
    )
    spans = by_rank.groupBy(*_NAMED).agg(
        F.min("from").alias("from"), F.max("to").alias("to"), F.bool_and("is_once").alias("is_once")
    )
    told = spans.filter("is_once")
    after = told.select("job_id", (F.col("attempt") - 1).alias("attempt"), "step_name", "from", "to")
    both = told.select(*_NAMED).join(after, _NAMED)
    return steps.join(F.broadcast(both), _NAMED).filter("step_index BETWEEN from AND to").drop("from", "to")
