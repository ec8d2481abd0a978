"""What each rank did itself in each step."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.host import matches
from tracelake.pipelines.functions.intervals import sliced, sweep
from tracelake.pipelines.functions.ranks import with_clash
from tracelake.pipelines.functions.stats import nearest_rank
from tracelake.pipelines.functions.steps import numbered_steps
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

_STEP = ["step_name", "step_occurrence"]
_PEERS = ["job_id", "attempt", *_STEP]
_LABELS = ("blocked", "host_comm", "comm", "step")


def rank_steps(
    sources: DataFrame,
    ranges: DataFrame,
    kernels: DataFrame,
    launches: DataFrame,
    syncs: DataFrame,
    step_ledger: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """One row per step and window. Own work is step time less what communication held the rank.

    Communication is exposed where the device does nothing else, but a host that runs on meanwhile is not held: it is
    held at most as long as some call blocks it. docs/decisions/0009 tells why.
    """
    held = _held(ranges, kernels, launches, syncs, step_ledger, parameters)
    steps = step_ledger.join(held, [*SOURCE_KEY, *_STEP], "left")
    called = _called(launches, numbered_steps(ranges, step_ledger))
    facts = steps.join(called, [*SOURCE_KEY, *_STEP], "left").withColumns(
        {name: F.coalesce(name, F.lit(0)) for name in ("host_comm_ns", "blocked_ns", "launch_call_ns")}
    )
    return _compared(_own_work(facts), sources).select(
        *_PEERS[:2], "source_id", "node_id", "rank", *_STEP, "duration_ns", "exposed_comm_ns", "host_comm_ns",
        "blocked_ns", "launch_call_ns", "held_ns", "own_work_ns", "ranks_seen_count", "peer_own_work_ns",
        "excess_ns", "reason", F.lit(METRIC_VERSION).alias("metric_version"),
    )  # fmt: skip


def _held(
    ranges: DataFrame,
    kernels: DataFrame,
    launches: DataFrame,
    syncs: DataFrame,
    step_ledger: DataFrame,
    parameters: Parameters,
) -> DataFrame:
    """Per step: blocked_ns, and host_comm_ns outside communication kernels."""
    talks = matches("name", parameters.communication_host_patterns)
    said = ranges.filter(talks & F.col("is_closed") & ~F.col("is_step"))
    talkers = F.broadcast(said.select(*SOURCE_KEY).distinct())
    # What the device does at the time matters only where the host names its communication.
    comm = kernels.filter("kernel_class = 'communication'").join(talkers, SOURCE_KEY, "left_semi")
    stuck = _stuck(launches).filter(F.col("end_ns") - F.col("start_ns") > parameters.slow_launch_ns)
    waits = syncs.filter("is_blocking AND thread_id IS NOT NULL")
    steps = step_ledger.withColumn("end_ns", F.col("start_ns") + F.col("duration_ns"))
    live = (
        _labelled(waits, "blocked")
        .unionByName(_labelled(stuck, "blocked"))
        .unionByName(_labelled(said, "host_comm"))
        .unionByName(_labelled(comm.drop("end_ns").withColumnRenamed("effective_end_ns", "end_ns"), "comm"))
        .unionByName(_labelled(steps, "step", F.xxhash64(*_STEP)))
    )
    stretches = sweep(sliced(live, "start_ns", "end_ns"), [PLACE, "slice"], _LABELS, told="step")
    length = F.col("end_ns") - F.col("start_ns")
    sums = (
        stretches.filter("step")
        .groupBy(PLACE, F.col("value").alias("step"))
        .agg(
            F.sum(F.when(F.col("blocked") | F.col("host_comm"), length).otherwise(0)).alias("blocked_ns"),
            F.sum(F.when(F.col("host_comm") & ~F.col("comm"), length).otherwise(0)).alias("host_comm_ns"),
        )
    )
    keyed = steps.select(*SOURCE_KEY, *_STEP, place(*SOURCE_KEY), F.xxhash64(*_STEP).alias("step"))
    return keyed.join(sums, [PLACE, "step"]).drop(PLACE, "step")


def _stuck(launches: DataFrame) -> DataFrame:
    """Calls, to where they stop waiting for the device. One whose work starts after it had a full queue before it; a
    copy holds the host until its turn comes. A call that is slow by itself waits for nobody."""
    turn = F.col("first_event_start_ns")
    until = F.when(turn >= F.col("end_ns"), F.col("end_ns")).when(F.col("memop_count") > 0, turn)
    return launches.withColumn("end_ns", until).filter("end_ns IS NOT NULL")


def _labelled(intervals: DataFrame, label: str, value: Column | None = None) -> DataFrame:
    value = F.lit(None).cast("bigint") if value is None else value
    return intervals.select(place(*SOURCE_KEY), F.lit(label).alias("label"), "start_ns", "end_ns", value.alias("value"))


def _called(launches: DataFrame, steps: DataFrame) -> DataFrame:
    spent = (
        launches.filter("step_name IS NOT NULL")
        .groupBy(*SOURCE_KEY, "step_name", F.col("step_occurrence").alias("own_occurrence"))
        .agg(F.sum("duration_ns").alias("launch_call_ns"))
    )
    return spent.join(steps, [*SOURCE_KEY, "step_name", "own_occurrence"]).drop("own_occurrence")


def _own_work(steps: DataFrame) -> DataFrame:
    # Without any device event nothing is exposed, and what the host says is all there is.
    is_known = (F.col("status") == "complete") & F.coalesce(
        F.col("reason").isNull() | (F.col("reason") == "no_gpu_activity_captured"), F.lit(False)
    )
    talking = F.coalesce("exposed_comm_ns", F.lit(0)) + F.col("host_comm_ns")
    held = F.when(is_known, F.least(talking, F.col("blocked_ns")))
    why = F.when(~is_known, F.coalesce("reason", "status"))
    return steps.withColumns({"held_ns": held, "own_work_ns": F.col("duration_ns") - held, "reason": why})


def _compared(steps: DataFrame, sources: DataFrame) -> DataFrame:
    """Steps with what their peers did in the same one."""
    clash = F.broadcast(with_clash(sources).select(*SOURCE_KEY, "is_clash"))
    judged = steps.join(clash, SOURCE_KEY, "left")
    why = (
        F.when(F.col("rank").isNull(), F.lit("rank_missing"))
        .when(F.coalesce("is_clash", F.lit(True)), F.lit("conflicting_rank"))
        .otherwise(F.col("reason"))
    )
    rows = judged.withColumn("reason", why)
    peers = (
        rows.filter("reason IS NULL")
        .groupBy(*_PEERS)
        .agg(
            F.count("*").alias("ranks_seen_count"),
            nearest_rank("own_work_ns", 0.5).alias("peer"),
            F.coalesce(F.min("step_index") != F.max("step_index"), F.lit(False)).alias("is_mixed"),
        )
    )
    told = rows.join(peers, _PEERS, "left").withColumn("ranks_seen_count", F.coalesce("ranks_seen_count", F.lit(0)))
    apart = (
        F.when(F.col("is_mixed"), F.lit("step_numbers_differ")).when(F.col("ranks_seen_count") < 2, F.lit("one_rank"))
    )  # fmt: skip
    alone = told.withColumn("reason", F.coalesce("reason", apart))
    peer = F.when(F.col("reason").isNull(), F.col("peer"))
    return alone.withColumn("peer_own_work_ns", peer).withColumn("excess_ns", F.col("own_work_ns") - peer)
