"""What samples say of each step, and of each annotation by name."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import opened, tops
from tracelake.pipelines.functions.readings import readings
from tracelake.pipelines.functions.steps import was_written
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import METRIC_VERSION


def step_samples(sources: DataFrame, samples: DataFrame, annotations: DataFrame, step_ledger: DataFrame) -> DataFrame:
    """Readings whose instant lies in the step of their process, or in an annotation that is innermost then on the
    thread of the steps. Failed readings are in no value and lower the coverage; a step without any has no row.
    """
    step = F.struct(F.col("step_name").alias("name"), "step_occurrence")
    steps = step_ledger.filter("status <> 'cut'").select(
        place(*SOURCE_KEY), step.alias("value"), "start_ns", (F.col("start_ns") + F.col("duration_ns")).alias("end_ns")
    )
    points = readings(samples, sources).withColumn(PLACE, place(*SOURCE_KEY))
    placed = opened(points, [PLACE], {"step": (steps, []), "annotation_id": (_inner(annotations), [])})
    names = annotations.filter("side = 'host' AND NOT is_step").select(
        place(*SOURCE_KEY), "annotation_id", F.col("name").alias("inner_name")
    )
    named = placed.join(names, [PLACE, "annotation_id"], "left")
    number = F.lit(None).cast("bigint")
    scopes = F.array_compact(
        F.array(
            F.when(
                F.col("step").isNotNull(), F.struct(F.lit("step").alias("scope"), "step.name", "step.step_occurrence")
            ),
            F.when(
                F.col("inner_name").isNotNull(),
                F.struct(
                    F.lit("annotation").alias("scope"),
                    F.col("inner_name").alias("name"),
                    number.alias("step_occurrence"),
                ),
            ),
        )
    )
    valid = F.when(F.col("is_valid"), F.col("value"))
    where = ["job_id", "attempt", "source_id", "node_id", "rank"]
    told = named.withColumn("in", F.explode(scopes)).select(
        *where, "in.*", "entity_kind", "entity_id", "metric", "unit", "is_valid", "reason", valid.alias("value")
    )
    grouped = told.groupBy(
        *where, "scope", "name", "step_occurrence", "entity_kind", "entity_id", "metric", "unit"
    ).agg(
        F.avg("value").alias("value_mean"),
        F.min("value").alias("value_min"),
        F.max("value").alias("value_max"),
        F.count(F.lit(1)).alias("sample_count"),
        F.avg(F.col("is_valid").cast("double")).alias("coverage_ratio"),
        F.max("reason").alias("reason"),
    )
    unknown = F.when(F.col("value_mean").isNull(), F.coalesce("reason", F.lit("no_valid_reading")))
    return grouped.withColumns({"reason": unknown, "metric_version": F.lit(METRIC_VERSION)})


def _inner(annotations: DataFrame) -> DataFrame:
    """Which annotation was innermost when on the thread of the steps."""
    threads = annotations.filter("is_step").groupBy(*SOURCE_KEY).agg(F.min("thread_id").alias("thread_id"))
    named = annotations.filter("side = 'host'").filter(was_written())
    host = named.join(F.broadcast(threads), [*SOURCE_KEY, "thread_id"], "left_semi")
    ranges = host.select(
        place(*SOURCE_KEY), F.col("annotation_id").alias("id"), "parent_id", "depth", "start_ns", "end_ns"
    )
    return tops(ranges, [PLACE])
