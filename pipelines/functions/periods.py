"""The period of a sequence of launches, by the kernels that they start; docs/decisions/0013 tells why it is found so.

A *gram* is a launch and the seven before it, by their kernels' names. What comes once per step comes back after as many
launches each time; so the grams whose returns cover the sequence most evenly tell the period, and one of them, the
anchor, cuts it. Each step is cut at its own anchor: what a disturbed step has too many shifts no later one.

A sequence is one `place` and `scope`; its launches are (n, kernel, landmark, start_ns, launch_id, …). n counts from 1,
`kernel` is a hash of the kernel's name, `landmark` is 2 for an optimizer's kernel, 1 for communication, else 0.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import PLACE

SEQUENCE = [PLACE, "scope"]
GRAM = 8
"""Launches of a gram. A shorter period is a loop rather than a step."""
_WITHIN_RATIO = 0.1
"""A step is usual where its number of launches is off the period by no more."""
_BEHIND_RATIO = 0.8
"""At least as much of what the best gram's returns cover another's must."""


def in_order() -> WindowSpec:
    """Of the launches of a sequence."""
    return Window.partitionBy(*SEQUENCE).orderBy("start_ns", "launch_id")


def with_grams(launches: DataFrame) -> DataFrame:
    """Launches with `gram`, NULL for the first seven, and `run`: launches until the next landmark of the same kind."""
    before = [F.lag("kernel", offset).over(in_order()) for offset in range(1, GRAM)]
    next_ = F.lit(None).cast("bigint")
    for kind in (1, 2):
        following = F.expr(f"lead(if(landmark = {kind}, n, NULL)) IGNORE NULLS").over(in_order())
        next_ = F.when(F.col("landmark") == kind, following).otherwise(next_)
    gram = F.when(before[-1].isNotNull(), F.xxhash64("kernel", *before))
    return launches.withColumns({"gram": gram, "run": next_ - F.col("n")})


def anchors(launches: DataFrame, counts: DataFrame, min_count: int) -> DataFrame:
    """(sequence, gram, period, offset): where to cut; sequences without any period are left out.

    `offset` is that of a step's first launch from the anchor's last. `counts` has launch_count per sequence.
    """
    rated = _returns(launches).join(F.broadcast(counts), SEQUENCE)
    covered = F.least(F.lit(1.0), (F.col("usual_launches") + F.col("period")) / F.col("launch_count"))
    often = rated.filter((F.col("usual_count") >= min_count - 1) & (F.col("period") >= GRAM))
    sequence = Window.partitionBy(*SEQUENCE)
    best = F.max(F.struct("covered", "interval_count", "irregular_count")).over(sequence)
    compared = often.withColumn("covered", covered).withColumn("best", best)
    # A layer's gram returns evenly but for once per step: far more often than disturbed steps are found.
    usually = 1.5 * F.col("best.irregular_count") + 0.02 * F.col("best.interval_count") + 1
    regular = F.col("irregular_count") <= usually
    # Of two steps cut by the window's bounds, one gram may have both and another none.
    edge = F.col("period") / F.col("launch_count")
    even = compared.filter(regular & (F.col("covered") >= F.col("best.covered") * _BEHIND_RATIO - edge))
    # What comes every tenth step only is as even; the step is the shortest.
    shortest = even.withColumn("shortest", F.min("period").over(sequence)).filter(_is_usual("period", "shortest"))
    # After the optimizer's last kernel, else after the last communication before the longest stretch without any, else
    # as the launches begin to repeat: of the names alone, so that ranks that run the same program agree.
    is_end = F.col("landmark") > 0
    order = F.struct("landmark", F.when(is_end, F.col("run")), F.when(is_end, F.col("gram")).otherwise(-F.col("first")))
    offset = F.when(is_end, 1).otherwise(1 - GRAM).alias("offset")
    chosen = shortest.groupBy(*SEQUENCE).agg(F.max_by(F.struct("gram", "period", offset), order).alias("anchor"))
    return chosen.select(*SEQUENCE, "anchor.*")


def _returns(launches: DataFrame) -> DataFrame:
    """Per gram: the usual distance between two of it (`period`), how many are about that and what they add up to."""
    by_gram = Window.partitionBy(*SEQUENCE, "gram").orderBy("n")
    placed = launches.filter("gram IS NOT NULL").withColumn("distance", F.lead("n").over(by_gram) - F.col("n"))
    distances = placed.groupBy(*SEQUENCE, "gram", "distance").agg(
        F.count(F.lit(1)).alias("count"),
        F.min("n").alias("first"),
        F.max("landmark").alias("landmark"),
        F.min("run").alias("run"),
    )
    is_known = F.col("distance").isNotNull()
    grams = distances.groupBy(*SEQUENCE, "gram").agg(
        F.max_by("distance", F.when(is_known, F.struct("count", -F.col("distance")))).alias("period"),
        F.collect_list(F.when(is_known, F.struct("distance", "count"))).alias("intervals"),
        *[F.min(name).alias(name) for name in ("first", "landmark", "run")],
    )
    usual = F.filter("intervals", lambda one: _is_usual(one["distance"], "period"))
    return grams.filter("period IS NOT NULL").select(
        *SEQUENCE, "gram", "period", "first", "landmark", "run",
        _total(usual, lambda one: one["count"] * one["distance"]).alias("usual_launches"),
        _total(usual, lambda one: one["count"]).alias("usual_count"),
        _total(F.col("intervals"), lambda one: one["count"]).alias("interval_count"),
    ).withColumn("irregular_count", F.col("interval_count") - F.col("usual_count"))  # fmt: skip


def _total(values: Column, of: Callable[[Column], Column]) -> Column:
    return F.aggregate(values, F.lit(0).cast("bigint"), lambda total, one: total + of(one))


def _is_usual(length: str | Column, period: str) -> Column:
    length = F.col(length) if isinstance(length, str) else length
    return F.abs(length - F.col(period)) <= _WITHIN_RATIO * F.col(period)


def cuts(launches: DataFrame, found: DataFrame, counts: DataFrame) -> DataFrame:
    """(sequence, first, next, is_usual, number): steps from launch `first` to before `next`, of the periodic stretch.

    Before the first usual step and after the last one nothing is cut.
    """
    begins = _begins(launches.join(F.broadcast(found), [*SEQUENCE, "gram"]).join(F.broadcast(counts), SEQUENCE))
    by_start, sequence = Window.partitionBy(*SEQUENCE).orderBy("first"), Window.partitionBy(*SEQUENCE)
    next_ = F.coalesce(F.lead("first").over(by_start), "end")
    placed = begins.withColumn("next", next_).filter("next IS NOT NULL")
    usual = placed.withColumn("is_usual", _is_usual(F.col("next") - F.col("first"), "period"))
    low = F.min(F.when(F.col("is_usual"), F.col("first"))).over(sequence)
    high = F.max(F.when(F.col("is_usual"), F.col("next"))).over(sequence)
    kept = usual.withColumns({"low": low, "high": high}).filter("first >= low AND first < high")
    return kept.select(*SEQUENCE, "first", "next", "is_usual", (F.row_number().over(by_start) - 1).alias("number"))


def _begins(anchored: DataFrame) -> DataFrame:
    """(sequence, period, first, end): where steps begin, and for the last of them where it ends if it is whole.

    A gram ends the step where it has a landmark and begins it where not. So a first step has no anchor before it, or a
    last one none after it; it is whole where its launches are all that there are, but for less than a gram.
    """
    by_number, period = Window.partitionBy(*SEQUENCE).orderBy("n"), F.col("period")
    first = F.col("n") + F.col("offset")
    is_first = (F.row_number().over(by_number) == 1) & (F.col("offset") > 0)
    left = F.col("launch_count") - first + 1
    is_whole = (F.col("offset") < 0) & left.between(period, period + GRAM - 1)
    begins = F.when(is_first & (first - period).between(1, GRAM), F.array(first - period, first))
    placed = anchored.withColumns(
        {"end": F.when(is_whole, first + period), "begins": F.coalesce(begins, F.array(first))}
    )
    return placed.select(*SEQUENCE, "period", "end", F.explode("begins").alias("first"))


def steps(launches: DataFrame, cut: DataFrame) -> DataFrame:
    """Per sequence: step_count, usual_count and usual_launches, starts_ns, end_ns, thread_id and agreement_ratio.

    A launch agrees where it starts the kernel that the usual step before has at the same place, counted from the start
    or from the end: what was put in between does not make the rest another step.
    """
    marks = cut.select(
        *SEQUENCE, F.col("first").alias("n"), F.struct("first", "next", "is_usual", "number").alias("step")
    )
    so_far = in_order().rowsBetween(Window.unboundedPreceding, 0)
    held = launches.join(marks, [*SEQUENCE, "n"], "left").withColumn("step", F.last("step", True).over(so_far))
    inside = held.filter(F.col("n") < F.col("step.next")).select(
        *SEQUENCE, "n", "kernel", "start_ns", "end_ns", "thread_id", "step.is_usual", "step.number",
        (F.col("n") - F.col("step.first")).alias("from_start"), (F.col("step.next") - F.col("n")).alias("from_end"),
    )  # fmt: skip
    agrees = F.lit(False)
    for at in ("from_start", "from_end"):
        before = F.lag("kernel").over(Window.partitionBy(*SEQUENCE, "is_usual", at).orderBy("number"))
        agrees = agrees | F.coalesce(F.col("kernel") == before, F.lit(False))
    each = inside.withColumn("agrees", agrees).groupBy(*SEQUENCE, "number", "is_usual").agg(
        F.min("start_ns").alias("start_ns"), F.max_by("end_ns", "n").alias("end_ns"),
        F.min_by("thread_id", "n").alias("thread_id"), F.count(F.lit(1)).alias("launches"),
        F.count_if("agrees").alias("agreeing"),
    )  # fmt: skip
    # The first step has none before it.
    later = F.col("is_usual") & (F.col("number") > 0)
    return each.groupBy(*SEQUENCE).agg(
        F.count(F.lit(1)).alias("step_count"), F.count_if("is_usual").alias("usual_count"),
        F.sum(F.when(F.col("is_usual"), F.col("launches"))).alias("usual_launches"),
        (F.sum(F.when(later, F.col("agreeing"))) / F.sum(F.when(later, F.col("launches")))).alias("agreement_ratio"),
        F.array_sort(F.collect_list("start_ns")).alias("starts_ns"),
        F.max_by("end_ns", "number").alias("end_ns"), F.min_by("thread_id", "number").alias("thread_id"),
    )  # fmt: skip
