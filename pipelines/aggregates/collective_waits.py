"""Each collective of each rank, matched with the other ranks'."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.collectives import in_order, is_point_to_point, operation_of
from tracelake.pipelines.functions.ranks import with_clash, world
from tracelake.pipelines.functions.steps import numbered_steps
from tracelake.pipelines.functions.where import ATTEMPT_KEY, SOURCE_KEY
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_LEAST_IN_ORDER = 3
_AGREEING_RATIO = 0.9
_DRIFT = 5_000
"""Clocks of two nodes drift apart by less than one part in so many."""
_COPIED = ("job_id", "attempt", "source_id", "node_id", "rank", "device_id", "kernel_id", "group_id", "match_group",
           "match_number", "operation", "bytes", "dtype", "start_ns", "end_ns", "duration_ns")  # fmt: skip


def collective_waits(
    sources: DataFrame,
    ranges: DataFrame,
    kernels: DataFrame,
    collectives: DataFrame,
    step_ledger: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """One row per communication kernel.

    A collective is (group, sequence) where arguments name both, else the order within the group, else the order on
    its stream. A match by order alone holds with at least three collectives, the same operations in the same order on
    all ranks, and times between two ends that agree; what does not hold has no transfer and no wait.
    """
    calls = _numbered(_named(kernels, collectives), _usable(sources))
    judged = _judged(calls, _orders(calls, parameters))
    reliable = F.col("reason").isNull()
    matched = ~F.coalesce(F.col("reason").isin("rank_missing", "conflicting_rank", "point_to_point", "one_rank"),
                          F.lit(False))  # fmt: skip
    method = F.when(F.col("is_sequence"), F.lit("sequence")).otherwise(F.lit("order"))
    waits = judged.withColumns(
        {
            "is_reliable": reliable,
            "match_method": F.when(matched, method).otherwise(F.lit("none")),
            "transfer_ns": F.when(reliable, F.col("shortest_ns")),
            "wait_ns": F.when(reliable, F.col("duration_ns") - F.col("shortest_ns")),
            "metric_version": F.lit(METRIC_VERSION),
        }
    )
    return _placed(waits, ranges, step_ledger).select(
        *_COPIED, "step_name", "step_occurrence", "ranks_seen_count", "ranks_expected_count", "match_method",
        "is_reliable", "reason", "transfer_ns", "wait_ns", "metric_version",
    )  # fmt: skip


def _usable(sources: DataFrame) -> DataFrame:
    """Windows that are not superseded, with why their rank cannot be compared, and how many ranks there are."""
    clash = with_clash(sources).select(*SOURCE_KEY, "is_clash")
    why = F.when(F.col("rank").isNull(), F.lit("rank_missing")).when(F.col("is_clash"), F.lit("conflicting_rank"))
    kept = sources.filter("status <> 'superseded'").join(clash, SOURCE_KEY, "left")
    facts = world(sources).select(*ATTEMPT_KEY, "world_size")
    return kept.join(facts, ATTEMPT_KEY).select(*SOURCE_KEY, why.alias("why"), facts["world_size"])


def _named(kernels: DataFrame, collectives: DataFrame) -> DataFrame:
    """Communication kernels with what their arguments say, else what their name does."""
    said = collectives.select(*SOURCE_KEY, "kernel_id", "group_id", "group_size_count", "sequence",
                              F.col("operation").alias("said"), "bytes", "dtype")  # fmt: skip
    ran = kernels.filter("kernel_class = 'communication'").select(
        *ATTEMPT_KEY, "source_id", "node_id", "rank", "device_id", F.col("event_id").alias("kernel_id"), "stream_id",
        "short_name", "start_ns", F.col("effective_end_ns").alias("end_ns"), "duration_ns", "step_name",
        F.col("step_occurrence").alias("own_occurrence"),
    )  # fmt: skip
    joined = ran.join(said, [*SOURCE_KEY, "kernel_id"], "left")
    return joined.withColumn("operation", F.coalesce("said", operation_of(F.col("short_name")))).drop("said")


def _numbered(calls: DataFrame, usable: DataFrame) -> DataFrame:
    """Calls with match_group and match_number. Streams go by who comes first: their numbers differ between ranks."""
    stream = [*SOURCE_KEY, "device_id", "stream_id"]
    unnamed = calls.filter("group_id IS NULL").groupBy(*stream).agg(F.min("start_ns").alias("first_ns"))
    first = Window.partitionBy(*SOURCE_KEY).orderBy("first_ns", "device_id", "stream_id")
    lanes = unnamed.withColumn("lane", F.row_number().over(first) - 1)
    on = [F.col(f"c.{name}").eqNullSafe(F.col(f"l.{name}")) for name in stream]
    known = calls.alias("c").join(F.broadcast(lanes.alias("l")), on, "left").select("c.*", "l.lane")
    by_sequence = F.col("group_id").isNotNull() & F.col("sequence").isNotNull()
    group = (
        F.when(by_sequence, F.concat(F.lit("group "), "group_id"))
        .when(F.col("group_id").isNotNull(), F.concat(F.lit("group "), "group_id", F.lit(" in order")))
        .otherwise(F.concat(F.lit("stream "), F.col("lane").cast("string"), F.lit(" in order")))
    )
    placed = known.withColumns({"is_sequence": by_sequence, "match_group": group})
    owned = placed.join(F.broadcast(usable), SOURCE_KEY)
    # A process without a rank counts by itself.
    who = F.coalesce(F.col("rank").cast("string"), "source_id")
    keyed = owned.withColumns({"lane_key": F.xxhash64(*ATTEMPT_KEY, who, "match_group")})
    ordered = in_order(keyed.filter(~by_sequence), ["lane_key"])
    both = keyed.filter(by_sequence).unionByName(ordered, allowMissingColumns=True)
    return both.withColumn("match_number", F.coalesce("order", "sequence")).drop("order", "sequence", "lane_key")


def _orders(calls: DataFrame, parameters: Parameters) -> DataFrame:
    """Of each group that is matched by order: why the order is not to be trusted; NULL where it is."""
    group = [*ATTEMPT_KEY, "match_group"]
    compared = calls.filter("NOT is_sequence AND why IS NULL")
    each = compared.groupBy(*group, "match_number").agg(
        (F.min("operation") != F.max("operation")).alias("differs"), F.count("*").alias("ranks")
    )
    size = Window.partitionBy(*group)
    counts = (
        each.withColumn("most", F.max("ranks").over(size))
        .groupBy(*group)
        .agg(
            F.max("differs").alias("differs"),
            F.count("*").alias("calls"),
            F.max(F.col("ranks") != F.col("most")).alias("is_uneven"),
        )
    )
    # Two collectives after each other: on all ranks the same time lies between their ends, whatever the clocks say.
    couple = F.call_function("div", F.col("match_number"), F.lit(2)).alias("couple")
    gaps = compared.groupBy(*group, "rank", couple).agg(
        (F.max("end_ns") - F.min("end_ns")).alias("gap"), F.count("*").alias("ends")
    )
    limit = parameters.collective_end_tolerance_ns + F.call_function("div", F.max("gap"), F.lit(_DRIFT))
    agree = (
        gaps.filter("ends = 2").groupBy(*group, "couple").agg((F.max("gap") - F.min("gap") <= limit).alias("agrees"))
    )
    shares = agree.groupBy(*group).agg(F.avg(F.col("agrees").cast("double")).alias("agreeing"))
    why = (
        F.when(F.col("differs"), F.lit("operations_differ"))
        .when(F.col("calls") < _LEAST_IN_ORDER, F.lit("too_few_collectives"))
        .when(F.col("is_uneven"), F.lit("counts_differ"))
        .when(F.coalesce(F.col("agreeing") < _AGREEING_RATIO, F.lit(True)), F.lit("ends_differ"))
    )
    return counts.join(shares, group, "left").select(*group, why.alias("order_reason"))


def _judged(calls: DataFrame, orders: DataFrame) -> DataFrame:
    """Calls with shortest_ns, the ranks that take part, and `reason` where they are not to be compared."""
    match = F.xxhash64(*ATTEMPT_KEY, "match_group", "match_number")
    is_apart = F.col("why").isNotNull() | is_point_to_point(F.col("operation"))
    # What cannot be compared is matched with nothing, not even with its like.
    alone = F.when(is_apart, F.xxhash64("source_id", "kernel_id")).otherwise(match)
    over = Window.partitionBy("match", "is_apart")
    # One after the other, for a set of a thousand ranks would stand in each row.
    before = F.lag("rank").over(over.orderBy("rank", "start_ns", "kernel_id"))
    is_next = F.when(F.col("rank").isNull() | F.coalesce(before == F.col("rank"), F.lit(False)), 0).otherwise(1)
    placed = calls.withColumns({"is_apart": is_apart, "match": alone}).withColumn("is_next_rank", is_next)
    facts = placed.withColumns(
        {
            "shortest_ns": F.min("duration_ns").over(over),
            "calls": F.count("*").over(over),
            "differs": F.min("operation").over(over) != F.max("operation").over(over),
            "ranks_seen_count": F.sum("is_next_rank").over(over),
            "group_size": F.max("group_size_count").over(over),
        }
    )
    known = facts.join(F.broadcast(orders), [*ATTEMPT_KEY, "match_group"], "left")
    expected = F.coalesce("group_size", "world_size")
    return known.withColumn("ranks_expected_count", expected).withColumn("reason", _reason(expected))


def _reason(expected: Column) -> Column:
    seen = F.col("ranks_seen_count")
    return (
        F.when(F.col("why").isNotNull(), F.col("why"))
        .when(F.col("is_apart"), F.lit("point_to_point"))
        .when(seen < 2, F.lit("one_rank"))
        .when(F.col("calls") > seen, F.lit("repeated"))
        .when(F.coalesce(seen > F.col("group_size"), F.lit(False)), F.lit("ambiguous_group"))
        .when(F.coalesce(2 * seen < expected, F.lit(False)), F.lit("too_few_ranks"))
        .when(F.col("differs"), F.lit("operations_differ"))
        .when(~F.col("is_sequence"), F.col("order_reason"))
    )


def _placed(calls: DataFrame, ranges: DataFrame, step_ledger: DataFrame) -> DataFrame:
    """Calls with the number of their step within the attempt; a kernel knows that within its window."""
    steps = numbered_steps(ranges, step_ledger)
    joined = calls.join(steps, [*SOURCE_KEY, "step_name", "own_occurrence"], "left")
    return joined.withColumn("step_name", F.when(F.col("step_occurrence").isNotNull(), F.col("step_name")))
