"""Which rank holds a step, when, and with what."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.collectives import ends_together
from tracelake.pipelines.functions.intervals import opened, sliced
from tracelake.pipelines.functions.ledger import CLASSES, class_sums, live_intervals
from tracelake.pipelines.functions.ranks import world
from tracelake.pipelines.functions.where import ATTEMPT_KEY, PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_STEP = [*ATTEMPT_KEY, "step_name", "step_occurrence"]
_MATCH = ["match_group", "match_number"]
_PARTS = [*CLASSES.values(), "other_ns"]


def critical_path(
    sources: DataFrame,
    annotations: DataFrame,
    kernels: DataFrame,
    memops: DataFrame,
    launches: DataFrame,
    syncs: DataFrame,
    step_ledger: DataFrame,
    collective_waits: DataFrame,
    collective_matches: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """One row per segment. All ranks leave a collective of all at one instant: between two of them the path lies on
    the rank that came last to the second, on its own clock, so that no clocks need agree.

    Segments are cut at the steps of their window, and what lies in none is left out.
    """
    attempts = _attempts(sources, step_ledger)
    barriers = _barriers(collective_matches, attempts)
    steps = step_ledger.join(F.broadcast(_fates(attempts, barriers)), ATTEMPT_KEY)
    calls = _calls(collective_waits, barriers, sources)
    pieces = _pieces(_segments(calls, steps), steps)
    live = live_intervals(annotations, kernels, memops, launches, syncs, parameters)
    path = _composed(pieces, class_sums(_near(live, pieces), pieces.withColumn("value", F.col("start_ns")), sources))
    told = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), (path, _alone(steps), _unknown(steps)))
    number = F.row_number().over(Window.partitionBy(*_STEP).orderBy("turn", "start_ns", "rank"))
    return told.withColumns(
        {"segment_number": (number - 1).cast("bigint"), "metric_version": F.lit(METRIC_VERSION)}
    ).select(
        *_STEP, "segment_number", "source_id", "node_id", "rank", "start_ns", "duration_ns", *_PARTS, *_MATCH,
        "transfer_ns", "reason", "metric_version",
    )  # fmt: skip


def _attempts(sources: DataFrame, step_ledger: DataFrame) -> DataFrame:
    """Per attempt with steps: `ranks` seen, whether one process is all there is, and why its ranks are no whole."""
    used = sources.filter("status <> 'superseded'")
    unnamed = used.groupBy(*ATTEMPT_KEY).agg(F.max(F.col("rank").isNull()).alias("is_unnamed"))
    rows = step_ledger.groupBy(*_STEP).agg(F.count("*").alias("rows"))
    at_once = rows.groupBy(*ATTEMPT_KEY).agg(F.max("rows").alias("rows"))
    facts = world(sources).join(unnamed, ATTEMPT_KEY).join(at_once, ATTEMPT_KEY)
    seen, size = F.col("ranks_seen_count"), F.coalesce("world_size", F.lit(1))
    why = (
        F.when(F.col("is_unnamed"), F.lit("rank_missing"))
        .when(F.col("ranks_usable_count") < seen, F.lit("conflicting_rank"))
        .when((seen < 2) | (2 * seen < size), F.lit("too_few_ranks"))
    )
    is_alone = (F.col("rows") == 1) & (seen < 2) & (size < 2)
    return facts.select(*ATTEMPT_KEY, seen.alias("ranks"), is_alone.alias("is_alone"), why.alias("why"))


def _barriers(collective_matches: DataFrame, attempts: DataFrame) -> DataFrame:
    """Collectives that all ranks seen leave together."""
    whole = attempts.filter("why IS NULL").select(*ATTEMPT_KEY, "ranks")
    common = (F.col("ranks_seen_count") == F.col("ranks")) & ends_together(F.col("operation"))
    found = collective_matches.filter("is_reliable").join(F.broadcast(whole), ATTEMPT_KEY).filter(common)
    return found.select(*ATTEMPT_KEY, *_MATCH, "last_rank", "transfer_ns", "ranks")


def _fates(attempts: DataFrame, barriers: DataFrame) -> DataFrame:
    """Per attempt what its steps get: segments, themselves, or a reason."""
    having = barriers.select(*ATTEMPT_KEY, F.lit(True).alias("has_path")).distinct()
    has_path = F.coalesce("has_path", F.lit(False))
    why = F.when(~has_path & ~F.col("is_alone"), F.coalesce("why", F.lit("no_common_collectives")))
    return attempts.join(having, ATTEMPT_KEY, "left").select(
        *ATTEMPT_KEY, has_path.alias("has_path"), "is_alone", why.alias("why")
    )


def _calls(collective_waits: DataFrame, barriers: DataFrame, sources: DataFrame) -> DataFrame:
    """Each rank's own calls of the barriers with `turn`, their number in time order, the same on all ranks, and
    from_ns: the rank's end of the one before, else the start of its window."""
    match = F.xxhash64(*ATTEMPT_KEY, *_MATCH).alias("match")
    known = barriers.select(match, *_MATCH, "last_rank", "transfer_ns", "ranks")
    used = collective_waits.filter("is_reliable")
    own = used.select(*ATTEMPT_KEY, "source_id", "node_id", "rank", "end_ns", match)
    windows = sources.select(*SOURCE_KEY, "window_start_ns")
    called = own.join(known, "match").join(F.broadcast(windows), SOURCE_KEY)
    in_time = Window.partitionBy("lane").orderBy("end_ns", "match_number", "match_group")
    same = [F.coalesce(each("source_id").over(in_time) == F.col("source_id"), F.lit(False)) for each in (F.lag, F.lead)]
    from_ns = F.when(same[0], F.lag("end_ns").over(in_time)).otherwise(F.col("window_start_ns"))
    return called.withColumn("lane", F.xxhash64(*ATTEMPT_KEY, "rank")).withColumns(
        {"turn": F.row_number().over(in_time), "from_ns": from_ns, "is_final": ~same[1]}
    )


def _segments(calls: DataFrame, steps: DataFrame) -> DataFrame:
    """The path as disjoint stretches of each source, (source, start_ns, end_ns, value)."""
    what = ["node_id", "rank", "turn", "end_ns", *_MATCH, "transfer_ns"]
    held = calls.filter("rank = last_rank").select(*ATTEMPT_KEY, "source_id", "from_ns", *what)
    # After the last barrier of its window each rank is by itself: the path is with the one that is last to end.
    ends = steps.groupBy(*SOURCE_KEY).agg(F.max(F.col("start_ns") + F.col("duration_ns")).alias("until_ns"))
    finals = calls.filter("is_final").join(ends, SOURCE_KEY, "left")
    left = F.col("until_ns") - F.col("end_ns")
    last = F.struct("source_id", "node_id", "rank", "turn", "end_ns", "until_ns")
    longest = F.max_by(last, F.when(left > 0, F.struct(left, -F.col("rank"), "source_id")))
    # Where some rank's window goes on, the barrier after this one says who was last.
    tails = (
        finals.groupBy(*ATTEMPT_KEY, "match", "ranks")
        .agg(F.count("*").alias("ended"), longest.alias("last"))
        .filter("ended = ranks AND last IS NOT NULL")
        .select(
            *ATTEMPT_KEY, "last.source_id", F.col("last.end_ns").alias("from_ns"), "last.node_id", "last.rank",
            (F.col("last.turn") + 1).alias("turn"), F.col("last.until_ns").alias("end_ns"),
        )
    )  # fmt: skip
    both = held.unionByName(tails, allowMissingColumns=True)
    return both.select(place(*SOURCE_KEY), *ATTEMPT_KEY, "source_id", "from_ns", *what)


def _pieces(segments: DataFrame, steps: DataFrame) -> DataFrame:
    """Segments cut at the steps of their source: each piece begins where one of the two does."""
    until = F.col("start_ns") + F.col("duration_ns")
    held = steps.filter("has_path").withColumn("end_ns", until)
    of_step = F.struct("step_name", "step_occurrence", "reason", "end_ns").alias("value")
    inside = held.select(place(*SOURCE_KEY), "start_ns", "end_ns", of_step)
    facts = [*ATTEMPT_KEY, "source_id", "node_id", "rank", "turn", *_MATCH, "transfer_ns", "end_ns"]
    along = segments.select(PLACE, F.col("from_ns").alias("start_ns"), "end_ns", F.struct(*facts).alias("value"))
    begins = along.select(PLACE, "start_ns").unionByName(inside.select(PLACE, "start_ns")).distinct()
    found = opened(
        begins.withColumnRenamed("start_ns", "at_ns"), [PLACE], {"segment": (along, []), "step": (inside, [])}
    ).filter("segment IS NOT NULL AND step IS NOT NULL")
    ends_it = F.col("segment.end_ns") <= F.col("step.end_ns")
    return found.select(
        PLACE, F.col("at_ns").alias("start_ns"), F.least("segment.end_ns", "step.end_ns").alias("end_ns"),
        *[F.col(f"segment.{name}").alias(name) for name in (*ATTEMPT_KEY, "source_id", "node_id", "rank", "turn")],
        *[F.when(ends_it, F.col(f"segment.{name}")).alias(name) for name in (*_MATCH, "transfer_ns")],
        *[F.col(f"step.{name}").alias(name) for name in ("step_name", "step_occurrence", "reason")],
    )  # fmt: skip


def _near(live: DataFrame, pieces: DataFrame) -> DataFrame:
    """What is live about the time of a piece: the path lies on one rank at a time, and the others' events are many."""
    held = sliced(pieces.select(PLACE, "start_ns", "end_ns"), "start_ns", "end_ns").select(PLACE, "slice").distinct()
    cut = sliced(live, "start_ns", "end_ns")
    return cut.join(F.broadcast(held), [PLACE, "slice"], "left_semi").drop("slice")


def _composed(pieces: DataFrame, sums: DataFrame) -> DataFrame:
    """Pieces with their classes, where those of the step are known."""
    facts = pieces.join(sums.withColumnRenamed("value", "start_ns"), [PLACE, "start_ns"], "left")
    parts = {name: F.coalesce(name, F.lit(0)) for name in CLASSES.values()}
    length = F.col("end_ns") - F.col("start_ns")
    other = reduce(Column.__sub__, parts.values(), length)
    known = {name: F.when(F.col("reason").isNull(), part) for name, part in (parts | {"other_ns": other}).items()}
    return facts.withColumns({"duration_ns": length, **known}).drop("end_ns", PLACE)


def _alone(steps: DataFrame) -> DataFrame:
    """Where there is one process, its steps are the path."""
    return steps.filter("is_alone AND NOT has_path").select(
        *_STEP, "source_id", "node_id", "rank", "start_ns", "duration_ns", *_PARTS, "reason"
    )


def _unknown(steps: DataFrame) -> DataFrame:
    return steps.filter("why IS NOT NULL").groupBy(*_STEP).agg(F.min("why").alias("reason"))
