"""Intervals in time: nesting, "what was open then", and unions, all with built-in expressions.

Nothing here puts a whole source into one window partition except ranges that people wrote (annotations) or operators:
events are cut into slices of time first, and what a slice needs from before it is carried in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

SLICE_NS = 5_000_000_000
"""Length of a slice: at 50,000 events a second, a few hundred thousand rows."""
_MOST_SLICES = 20_000
FOREVER_NS = 1 << 62


def nested(ranges: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Ranges (id, start_ns, end_ns and `keys`, which may be NULL) with depth, parent_id and is_outliving.

    Nesting is last-in-first-out per key, depth counts from 0. A range that outlives the one around it keeps it as
    parent and says so; what starts in it later lies in it. An end_ns of NULL is open for ever.
    """
    ordered = _ordered(ranges, keys)
    has_length = F.col("_end") > F.col("start_ns")
    around = F.struct("id", F.col("_end").alias("end"))
    asks = ordered.withColumns({"level": F.col("depth") - 1, "_mark": F.lit(0)})
    marks = ordered.filter(has_length).select(*keys, "_place", "depth", around.alias("around"))
    # A range is sought one level up, and on its own level where the one up there has closed and left it behind.
    own = marks.select(
        *keys, "_place", F.col("depth").alias("level"), F.lit(1).alias("_mark"), F.col("around").alias("own")
    )
    same = marks.select(
        *keys, "_place", (F.col("depth") - 1).alias("level"), F.lit(1).alias("_mark"), F.col("around").alias("same")
    )
    both = asks.unionByName(own, allowMissingColumns=True).unionByName(same, allowMissingColumns=True)
    so_far = Window.partitionBy(*keys, "level").orderBy("_place", "_mark").rowsBetween(Window.unboundedPreceding, 0)
    seen = both.withColumns({name: F.last(name, ignorenulls=True).over(so_far) for name in ("own", "same")})
    found = [F.when(F.col(name)["end"] > F.col("start_ns"), F.col(name)) for name in ("own", "same")]
    parents = seen.filter("_mark = 0").withColumn("_around", F.coalesce(*found))
    outlives = F.coalesce(F.col("_end") > F.col("_around.end"), F.lit(False))
    told = parents.withColumns({"parent_id": F.col("_around.id"), "is_outliving": outlives})
    return told.select(*ranges.columns, "depth", "parent_id", "is_outliving")


def _ordered(ranges: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Ranges with _place (order of their starts), _end, and depth: how many others are open when they start."""
    begins = ranges.withColumns(
        {"_end": F.coalesce("end_ns", F.lit(FOREVER_NS)), "_at": F.col("start_ns"), "_step": F.lit(1)}
    )
    has_length = F.col("_end") > F.col("start_ns")
    ends = begins.filter(has_length).select(
        *keys, F.col("_end").alias("_at"), F.lit(0).alias("_step"), F.lit(-1).alias("_delta")
    )
    points = begins.withColumn("_delta", F.when(has_length, 1).otherwise(0)).unionByName(ends, allowMissingColumns=True)
    in_time = Window.partitionBy(*keys).orderBy("_at", "_step", F.when(F.col("_step") == 1, -F.col("_end")), "id")
    open_ = F.sum("_delta").over(in_time.rowsBetween(Window.unboundedPreceding, 0))
    placed = points.withColumns({"_open": open_, "_place": F.row_number().over(in_time)}).filter("_step = 1")
    depth = F.when(has_length, F.col("_open") - 1).otherwise(F.col("_open")).cast("int")
    return placed.withColumn("depth", depth).drop("_open", "_at", "_step", "_delta")


def innermost(points: DataFrame, ranges: DataFrame, keys: Sequence[str], name: str) -> DataFrame:
    """Points (`keys`, at_ns, …) with the id of the innermost range open at at_ns as `name`, NULL where none is.

    `ranges` are those of `nested`: keys, id, parent_id, depth, start_ns, end_ns.
    """
    return open_then(points, tops(ranges, keys), keys, name)


def tops(ranges: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Disjoint stretches (keys, value, start_ns, end_ns): which range was innermost when.

    At a range's end its parent is innermost again; a child that outlives it stays so and hands over outwards.
    """
    real = ranges.withColumn("end_ns", F.coalesce("end_ns", F.lit(FOREVER_NS))).filter("end_ns > start_ns")
    begins = real.select(
        *keys,
        F.col("start_ns").alias("at"),
        F.lit(1).alias("step"),
        F.col("depth").alias("turn"),
        F.col("id").alias("value"),
    )
    outer = real.select(
        *keys,
        F.col("id").alias("parent_id"),
        F.col("end_ns").alias("outer_end_ns"),
        F.col("parent_id").alias("next_id"),
    )
    placed = _null_safe(real, outer, [*keys, "parent_id"], "left")
    outlives = F.coalesce(F.col("end_ns") > F.col("outer_end_ns"), F.lit(False))
    closing = placed.withColumn("value", F.when(outlives, F.col("next_id")).otherwise(F.col("parent_id")))
    # Whoever closes under an open child was not innermost, and changes nothing.
    left_behind = placed.filter(outlives).select(*keys, F.col("parent_id").alias("id"))
    closing = _null_safe(closing, left_behind, [*keys, "id"], "left_anti")
    ends = closing.select(
        *keys, F.col("end_ns").alias("at"), F.lit(0).alias("step"), (-F.col("depth")).alias("turn"), "value"
    )
    in_time = Window.partitionBy(*keys).orderBy("at", "step", "turn")
    marks = begins.unionByName(ends).withColumn("until", F.lead("at").over(in_time))
    return marks.filter("value IS NOT NULL AND until > at").select(
        *keys, "value", F.col("at").alias("start_ns"), F.col("until").alias("end_ns")
    )


def _null_safe(left: DataFrame, right: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    """Join on `keys`, NULL being equal to NULL; the right side's keys are dropped."""
    renamed = right.withColumnsRenamed({key: f"_{key}" for key in keys})
    on = [F.col(key).eqNullSafe(F.col(f"_{key}")) for key in keys]
    return left.join(renamed, on, how).drop(*[f"_{key}" for key in keys])


def open_then(points: DataFrame, stretches: DataFrame, keys: Sequence[str], name: str) -> DataFrame:
    """Points (`keys`, at_ns, …) with the `value` of the stretch that holds at_ns, as `name`; NULL where none does.

    Stretches of one key are disjoint. Both are cut by slices, so that no key is one partition.
    """
    return opened(points, keys, {name: (stretches, [])})


def opened(points: DataFrame, keys: Sequence[str], told: Mapping[str, tuple[DataFrame, Sequence[str]]]) -> DataFrame:
    """`open_then` for several kinds of stretches in one pass: name -> (stretches, their keys besides `keys`)."""
    both = points.withColumns({"slice": _slice(F.col("at_ns")), "is_point": F.lit(True)})
    for name, (stretches, more) in told.items():
        mark = F.struct("value", "end_ns").alias(f"_{name}")
        marks = sliced(stretches, "start_ns", "end_ns").select(
            *keys, *more, "slice", F.col("start_ns").alias("at_ns"), F.lit(False).alias("is_point"), mark
        )
        both = both.unionByName(marks, allowMissingColumns=True)
    # Those with the fewest keys first: what is partitioned for them is so for the others too.
    for name, (_, more) in sorted(told.items(), key=lambda each: len(each[1][1])):
        in_slice = Window.partitionBy(*keys, "slice", *more).orderBy("at_ns", "is_point")
        so_far = in_slice.rowsBetween(Window.unboundedPreceding, 0)
        both = both.withColumn(f"_{name}", F.last(f"_{name}", ignorenulls=True).over(so_far))
    held = {name: F.when(F.col(f"_{name}.end_ns") > F.col("at_ns"), F.col(f"_{name}.value")) for name in told}
    return both.filter("is_point").withColumns(held).drop("slice", "is_point", *[f"_{name}" for name in told])


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


def sweep(pieces: DataFrame, keys: Sequence[str], classes: Sequence[str], told: str | None = None) -> DataFrame:
    """Elementary stretches of time (keys, start_ns, end_ns) with, per class, whether any of its pieces covers them.

    `pieces` are rows of (keys, label, start_ns, end_ns), where label is one of `classes`. `keys` hold the slice.
    Stretches that nothing covers are left out. Lengths add up exactly: each instant is in one stretch. `told` names a
    class whose pieces are disjoint; the stretches in one of them have its `value`.
    """
    # A label as a number, with the sign of the edge: what is sorted stays narrow.
    number = F.lit(0)
    for place, name in enumerate(classes, 1):
        number = F.when(F.col("label") == name, place).otherwise(number)
    starts = [F.col("start_ns").alias("at"), number.alias("edge")]
    ends = [F.col("end_ns").alias("at"), (-number).alias("edge")]
    if told:
        starts.append(F.col("value").alias("value"))
        ends.append(F.lit(None).cast(pieces.schema["value"].dataType).alias("value"))
    edges = pieces.select(*keys, F.explode(F.array(F.struct(*starts), F.struct(*ends))).alias("one"))
    # Partitioned and sorted here: the window would do it after the columns that it sums were made.
    sorted_ = edges.select(*keys, "one.*").repartition(*keys).sortWithinPartitions(*keys, "at")
    in_time = Window.partitionBy(*keys).orderBy("at")
    so_far = in_time.rowsBetween(Window.unboundedPreceding, 0)
    live = {
        name: F.sum(F.when(F.col("edge") == place, 1).when(F.col("edge") == -place, -1).otherwise(0)).over(so_far) > 0
        for place, name in enumerate(classes, 1)
    }
    values = [F.last("value", ignorenulls=True).over(so_far).alias("value")] if told else []
    stretches = sorted_.select(
        *keys,
        F.col("at").alias("start_ns"),
        F.lead("at").over(in_time).alias("end_ns"),
        *[flag.alias(name) for name, flag in live.items()],
        *values,
    )
    covered = " OR ".join(f"`{name}`" for name in classes)
    found = stretches.filter(f"end_ns > start_ns AND ({covered})")
    return found.withColumn("value", F.when(F.col(told), F.col("value"))) if told else found


def union_ns(intervals: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Per key: union_ns, the length of the union of its intervals, and its first start_ns and last end_ns."""
    pieces = sliced(intervals.select(*keys, "start_ns", "end_ns"), "start_ns", "end_ns")
    in_time = Window.partitionBy(*keys, "slice").orderBy("start_ns")
    return (
        pieces.withColumn("added_ns", added(in_time))
        .groupBy(*keys)
        .agg(
            F.sum("added_ns").alias("union_ns"),
            F.min("start_ns").alias("start_ns"),
            F.max("end_ns").alias("end_ns"),
        )
    )


def added(in_time: WindowSpec, end: Column | None = None) -> Column:
    """What an interval adds to the union of those before it in a window that is ordered by start_ns.

    `end` is its end_ns where it counts, and NULL where it does not.
    """
    end = F.col("end_ns") if end is None else end
    reach = F.max(end).over(in_time.rowsBetween(Window.unboundedPreceding, -1))
    return F.greatest(end - F.greatest(F.col("start_ns"), F.coalesce(reach, F.col("start_ns"))), F.lit(0))
