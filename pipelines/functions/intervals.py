"""Intervals in time: nesting, "what was open then", and unions, all with built-in expressions.

Nothing here puts a whole source into one window partition except ranges that people wrote (annotations) or operators:
events are cut into slices of time first, and what a slice needs from before it is carried in.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

SLICE_NS = 5_000_000_000
"""Length of a slice: at 50,000 events a second, a few hundred thousand rows."""
_MOST_SLICES = 20_000
FOREVER_NS = 1 << 62


def nested(ranges: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Ranges (id, start_ns, end_ns and `keys`) with `depth` from 0, `parent_id` and `is_outliving`.

    Nesting is last-in-first-out per key; a range that outlives the one around it keeps it as parent and says so.
    An end_ns of NULL is open for ever.
    """
    end = F.coalesce("end_ns", F.lit(FOREVER_NS))
    begins = ranges.select(
        *keys, "id", "start_ns", end.alias("end"), F.col("start_ns").alias("at"), F.lit(1).alias("step")
    )
    has_length = F.col("end") > F.col("start_ns")
    points = begins.withColumn("delta", F.when(has_length, 1).otherwise(0)).unionByName(
        begins.filter(has_length)
        .withColumn("at", F.col("end"))
        .withColumn("step", F.lit(0))
        .withColumn("delta", F.lit(-1))
    )
    in_time = Window.partitionBy(*keys).orderBy("at", "step", F.when(F.col("step") == 1, -F.col("end")), "id")
    ordered = (
        points.withColumn("open", F.sum("delta").over(in_time.rowsBetween(Window.unboundedPreceding, 0)))
        .withColumn("place", F.row_number().over(in_time))
        .filter("step = 1")
        .withColumn("depth", F.when(has_length, F.col("open") - 1).otherwise(F.col("open")).cast("int"))
    )
    around = F.struct("id", F.col("end").alias("end"))
    asks = ordered.select(*keys, "place", "id", "start_ns", "end", "depth", (F.col("depth") - 1).alias("level"))
    marks = ordered.filter(has_length).select(*keys, "place", F.col("depth").alias("level"), around.alias("mark"))
    both = asks.withColumn("mark", F.lit(None).cast(marks.schema["mark"].dataType)).unionByName(
        marks, allowMissingColumns=True
    )
    at_level = Window.partitionBy(*keys, "level").orderBy("place").rowsBetween(Window.unboundedPreceding, 0)
    found = both.withColumn("around", F.last("mark", ignorenulls=True).over(at_level)).filter(F.col("id").isNotNull())
    is_open = F.col("around.end") > F.col("start_ns")
    answers = found.select(
        *keys,
        "id",
        "depth",
        F.when(is_open, F.col("around.id")).alias("parent_id"),
        F.coalesce(is_open & (F.col("end") > F.col("around.end")), F.lit(False)).alias("is_outliving"),
    )
    return ranges.join(answers, [*keys, "id"])


def innermost(points: DataFrame, ranges: DataFrame, keys: Sequence[str], name: str) -> DataFrame:
    """Points (`keys`, at_ns, …) with the id of the innermost range open at at_ns as `name`, NULL where none is.

    `ranges` are those of `nested`: keys, id, parent_id, depth, start_ns, end_ns.
    """
    return open_then(points, _tops(ranges, keys), keys, name)


def _tops(ranges: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Disjoint stretches (keys, value, start_ns, end_ns): which range was innermost when."""
    real = ranges.withColumn("end_ns", F.coalesce("end_ns", F.lit(FOREVER_NS))).filter("end_ns > start_ns")
    begins = real.select(*keys, F.col("start_ns").alias("at"), F.lit(1).alias("step"), F.col("depth").alias("turn"),
                         F.col("id").alias("value"))  # fmt: skip
    ends = real.select(*keys, F.col("end_ns").alias("at"), F.lit(0).alias("step"), (-F.col("depth")).alias("turn"),
                       F.col("parent_id").alias("value"))  # fmt: skip
    in_time = Window.partitionBy(*keys).orderBy("at", "step", "turn")
    marks = begins.unionByName(ends).withColumn("until", F.lead("at").over(in_time))
    return marks.filter("value IS NOT NULL AND until > at").select(
        *keys, "value", F.col("at").alias("start_ns"), F.col("until").alias("end_ns")
    )


def open_then(points: DataFrame, stretches: DataFrame, keys: Sequence[str], name: str) -> DataFrame:
    """Points (`keys`, at_ns, …) with the `value` of the stretch that holds at_ns, as `name`; NULL where none does.

    Stretches of one key are disjoint. Both are cut by slices, so that no key is one partition.
    """
    pieces = sliced(stretches, "start_ns", "end_ns")
    mark = F.struct("value", "end_ns")
    value_type = F.lit(None).cast(f"struct<value:{stretches.schema['value'].dataType.simpleString()},end_ns:bigint>")
    asked = (
        points.withColumn("slice", _slice(F.col("at_ns")))
        .withColumn("is_point", F.lit(True))
        .withColumn("mark", value_type)
    )
    marks = pieces.select(*keys, F.col("start_ns").alias("at_ns"), "slice", F.lit(False).alias("is_point"),
                          mark.alias("mark"))  # fmt: skip
    in_slice = Window.partitionBy(*keys, "slice").orderBy("at_ns", "is_point").rowsBetween(Window.unboundedPreceding, 0)
    both = asked.unionByName(marks, allowMissingColumns=True)
    seen = both.withColumn("mark", F.last("mark", ignorenulls=True).over(in_slice)).filter("is_point")
    held = F.when(F.col("mark.end_ns") > F.col("at_ns"), F.col("mark.value"))
    return seen.withColumn(name, held).drop("mark", "slice", "is_point")


def sliced(
    intervals: DataFrame, start: str, end: str, origin: Column | None = None, width: Column | None = None
) -> DataFrame:
    """Each interval cut at slice edges: one row per piece, with `slice`. Empty intervals vanish.

    Slices count from `origin` (default the epoch) and are `width` wide. An interval of more than 20,000 slices (28
    hours by default; a source holds 24) is cut there.
    """
    first = _slice(F.col(start), origin, width)
    last = F.least(_slice(F.col(end) - 1, origin, width), first + _MOST_SLICES)
    base, wide = _base(origin), _width(width)
    pieces = intervals.filter(F.col(end) > F.col(start)).withColumn("slice", F.explode(F.sequence(first, last)))
    low = base + F.col("slice") * wide
    return pieces.withColumn(start, F.greatest(F.col(start), low)).withColumn(end, F.least(F.col(end), low + wide))


def _base(origin: Column | None) -> Column:
    return F.lit(0).cast("bigint") if origin is None else origin


def _width(width: Column | None) -> Column:
    return F.lit(SLICE_NS) if width is None else width


def _slice(at: Column, origin: Column | None = None, width: Column | None = None) -> Column:
    # Integer division that floors for times before the origin too.
    offset, wide = at - _base(origin), _width(width)
    return F.call_function("div", offset - F.pmod(offset, wide), wide)


def sweep(pieces: DataFrame, keys: Sequence[str], classes: Sequence[str]) -> DataFrame:
    """Elementary stretches of time (keys, start_ns, end_ns) with, per class, whether any of its pieces covers them.

    `pieces` are rows of (keys, label, start_ns, end_ns), where label is one of `classes`. `keys` hold the slice.
    Stretches that nothing covers are left out. Lengths add up exactly: each instant is in one stretch.
    """

    def deltas(sign: int, at: str) -> DataFrame:
        each = [F.when(F.col("label") == name, sign).otherwise(0).alias(name) for name in classes]
        return pieces.select(*keys, F.col(at).alias("start_ns"), *each)

    points = deltas(1, "start_ns").unionByName(deltas(-1, "end_ns"))
    edges = points.groupBy(*keys, "start_ns").agg(*[F.sum(name).alias(name) for name in classes])
    in_time = Window.partitionBy(*keys).orderBy("start_ns")
    so_far = in_time.rowsBetween(Window.unboundedPreceding, 0)
    flags = [(F.sum(name).over(so_far) > 0).alias(name) for name in classes]
    stretches = edges.select(*keys, "start_ns", F.lead("start_ns").over(in_time).alias("end_ns"), *flags)
    covered = " OR ".join(f"`{name}`" for name in classes)
    return stretches.filter(f"end_ns IS NOT NULL AND ({covered})")


def union_ns(intervals: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Per key: union_ns, the length of the union of its intervals, and its first start_ns and last end_ns."""
    pieces = sliced(intervals.select(*keys, "start_ns", "end_ns"), "start_ns", "end_ns").withColumn(
        "label", F.lit("it")
    )
    stretches = sweep(pieces, [*keys, "slice"], ["it"])
    return stretches.groupBy(*keys).agg(
        F.sum(F.col("end_ns") - F.col("start_ns")).alias("union_ns"),
        F.min("start_ns").alias("start_ns"),
        F.max("end_ns").alias("end_ns"),
    )
