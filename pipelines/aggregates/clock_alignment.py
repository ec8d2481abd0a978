"""How far each window's clock is from the reference."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.clocks import drifted_ns
from tracelake.pipelines.functions.collectives import ends_together
from tracelake.pipelines.functions.stats import nearest_rank
from tracelake.pipelines.functions.where import ATTEMPT_KEY
from tracelake.pipelines.parameters import METRIC_VERSION

_MATCH = [*ATTEMPT_KEY, "match_group", "match_number"]
_CLOCK = [*ATTEMPT_KEY, "clock"]
_MOST_MATCHES = 10_000
"""So many collectives of an attempt tell all that there is to know of its clocks."""
_LEAST_TO_DRIFT = 5
"""Collectives at either end of the time that they span."""


def clock_alignment(sources: DataFrame, collective_waits: DataFrame) -> DataFrame:
    """One row per window. Collectives that all ranks leave at one instant show what each clock said then.

    A line through the differences: its slope from the medians of the first and the last third, its height the median,
    so that a few collectives that ended oddly move nothing. Windows of one node share a clock.
    """
    clocks = _clocks(sources)
    lines = _lines(_differences(collective_waits, clocks))
    joined = clocks.join(lines, _CLOCK, "left")
    is_reference, is_aligned = F.col("clock") == F.col("reference"), F.col("offset_ns").isNotNull()
    method = F.when(is_reference, F.lit("same_host")).when(is_aligned, F.lit("collective_ends"))
    zero = {name: F.when(is_reference, F.lit(0)).otherwise(F.col(name)) for name in ("offset_ns", "residual_ns")}
    return joined.withColumns(
        {
            "method": F.coalesce(method, F.lit("none")),
            "reason": F.when(~is_reference & ~is_aligned, F.lit("no_matched_collectives")),
            **zero,
            "matched_count": F.coalesce("matched_count", F.lit(0)),
            "metric_version": F.lit(METRIC_VERSION),
        }
    ).drop("clock")


def _clocks(sources: DataFrame) -> DataFrame:
    """Windows with their clock, and that of the attempt's lowest rank."""
    clock = F.coalesce("node_id", "source_id")
    lowest = F.struct(F.coalesce("rank", F.lit(2**31 - 1)), "source_id")
    attempt = Window.partitionBy(*ATTEMPT_KEY)
    kept = sources.filter("status <> 'superseded'").withColumn("clock", clock)
    reference = F.min_by("clock", lowest).over(attempt).alias("reference")
    return kept.select(*ATTEMPT_KEY, "source_id", "node_id", "rank", "clock", reference)


def _differences(collective_waits: DataFrame, clocks: DataFrame) -> DataFrame:
    """(attempt, clock, at_ns, ahead_ns): per collective, what each clock said at its end and how far ahead that is."""
    matched = collective_waits.filter(F.col("is_reliable") & ends_together(F.col("operation")))
    owned = F.broadcast(clocks.select("job_id", "source_id", "clock", "reference"))
    ends = (
        matched.join(owned, ["job_id", "source_id"])
        .groupBy(*_MATCH, "clock")
        .agg(F.max("end_ns").alias("at_ns"), F.max(F.col("clock") == F.col("reference")).alias("is_reference"))
    )
    match = F.xxhash64(*_MATCH)
    right = ends.filter("is_reference").select(*ATTEMPT_KEY, match.alias("match"), F.col("at_ns").alias("right_ns"))
    counts = right.groupBy(*ATTEMPT_KEY).agg(F.ceil(F.count("*") / _MOST_MATCHES).alias("each"))
    some = right.join(F.broadcast(counts), ATTEMPT_KEY).filter(F.pmod("match", "each") == 0).select("match", "right_ns")
    others = ends.filter("NOT is_reference").select(*_CLOCK, match.alias("match"), "at_ns")
    return others.join(some, "match").select(*_CLOCK, "at_ns", (F.col("at_ns") - F.col("right_ns")).alias("ahead_ns"))


def _lines(differences: DataFrame) -> DataFrame:
    """Per clock: origin_ns, offset_ns, drift_ppm, residual_ns, matched_count."""
    spans = differences.groupBy(*_CLOCK).agg(
        F.min("at_ns").alias("first_ns"), F.max("at_ns").alias("last_ns"), F.count("*").alias("matched_count")
    )
    third = F.call_function("div", F.col("last_ns") - F.col("first_ns"), F.lit(3))
    part = (
        F.when(F.col("at_ns") <= F.col("first_ns") + third, F.lit("early"))
        .when(F.col("at_ns") >= F.col("last_ns") - third, F.lit("late"))
    )  # fmt: skip
    placed = differences.join(F.broadcast(spans), _CLOCK).withColumn("part", part)
    parts = (
        placed.filter("part IS NOT NULL")
        .groupBy(*_CLOCK, "part")
        .agg(
            nearest_rank("at_ns", 0.5).alias("at"),
            nearest_rank("ahead_ns", 0.5).alias("ahead"),
            F.count("*").alias("ends"),
        )
    )
    early, late = ({name: F.max(F.when(F.col("part") == which, F.col(name))) for name in ("at", "ahead", "ends")}
                   for which in ("early", "late"))  # fmt: skip
    enough = (F.least(early["ends"], late["ends"]) >= _LEAST_TO_DRIFT) & (late["at"] > early["at"])
    ppm = (late["ahead"] - early["ahead"]).cast("double") / (late["at"] - early["at"]) * 1e6
    drifts = parts.groupBy(*_CLOCK).agg(F.when(enough, ppm).alias("drift_ppm"))
    origin = F.col("first_ns") + F.call_function("div", F.col("last_ns") - F.col("first_ns"), F.lit(2))
    level = F.col("ahead_ns") - drifted_ns(F.col("drift_ppm"), F.col("at_ns") - F.col("origin_ns"))
    flat = placed.join(F.broadcast(drifts), _CLOCK).withColumn("origin_ns", origin).withColumn("level_ns", level)
    heights = flat.groupBy(*_CLOCK).agg(nearest_rank("level_ns", 0.5).alias("offset_ns"))
    away = F.abs(F.col("level_ns") - F.col("offset_ns"))
    return (
        flat.join(F.broadcast(heights), _CLOCK)
        .withColumn("away_ns", away)
        .groupBy(*_CLOCK)
        .agg(
            F.first("origin_ns").alias("origin_ns"),
            F.first("offset_ns").alias("offset_ns"),
            F.first("drift_ppm").alias("drift_ppm"),
            nearest_rank("away_ns", 0.5).alias("residual_ns"),
            F.first("matched_count").alias("matched_count"),
        )
    )
