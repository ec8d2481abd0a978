"""Rules that find what is wrong with a job, each from the tables that show it. A rule without its signal finds nothing.

Every rule gives the columns of `FINDING`; aggregates.findings puts them in order.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.evidence import reference
from tracelake.pipelines.functions.products import is_fp32_product, shorter_types
from tracelake.pipelines.functions.redone import redone_of
from tracelake.pipelines.functions.remedies import remedy
from tracelake.pipelines.functions.usual import CLASSES
from tracelake.pipelines.functions.where import ATTEMPT_KEY
from tracelake.pipelines.parameters import Parameters

FINDING = [
    *ATTEMPT_KEY, "rule", "cause", "severity", "title", "remedy", "guilty_rank", "guilty_node_id", "step_name",
    "step_count", "first_step_occurrence", "last_step_occurrence", "lost_ns", "confidence", "evidence",
]  # fmt: skip
_SHOWN = 5
"""Rows that a finding refers to; their table holds the rest."""


def slow_ranks(stragglers: DataFrame) -> DataFrame:
    """Ranks with more work of their own than their peers in every step, and nodes of which all ranks have."""
    more = F.concat(F.lit("slowdown_ratio "), F.round("slowdown_ratio", 4).cast("string"), F.lit(", excess_ns "),
                    F.col("excess_ns").cast("string"), F.lit(" in each of "), F.col("step_count").cast("string"),
                    F.lit(" steps"))  # fmt: skip
    ranks = stragglers.withColumns(
        {
            "said": reference("aggregates.stragglers", more, *ATTEMPT_KEY, "rank"),
            "is_node": F.col("verdict") == "node",
        }
    )
    who = F.when(F.col("is_node"), F.col("node_id")).otherwise(F.col("rank").cast("string"))
    found = ranks.groupBy(*ATTEMPT_KEY, "is_node", who.alias("who"), "step_name").agg(
        F.max_by("cause", "cost_sum_ns").alias("cause"),
        F.min("rank").alias("rank"),
        F.min("node_id").alias("guilty_node_id"),
        F.max("slowdown_ratio").alias("slowdown"),
        F.max("step_count").alias("step_count"),
        F.sum("cost_sum_ns").alias("lost_ns"),
        F.slice(F.sort_array(F.collect_list("said")), 1, _SHOWN).alias("evidence"),
        F.min(F.col("ranks_seen_count") / F.col("ranks_expected_count")).alias("seen"),
    )
    subject = F.when(F.col("is_node"), F.concat(F.lit("All ranks of node "), "who")).otherwise(
        F.concat(F.lit("Rank "), F.col("who"), F.coalesce(F.concat(F.lit(" on "), "guilty_node_id"), F.lit("")))
    )
    title = F.concat(subject, F.lit(": "), _percent("slowdown"), F.lit(" more work of its own per step than its peers"))
    rows = found.withColumns(
        {
            "cause": F.coalesce("cause", F.lit("mixed")),
            "guilty_rank": F.when(~F.col("is_node"), F.col("rank")),
            "confidence": F.least(F.coalesce("seen", F.lit(1.0)), F.lit(1.0)),
        }
    )
    return _finding(rows, F.when(F.col("is_node"), F.lit("slow_node")).otherwise(F.lit("slow_rank")), title)


def slow_steps(outlier_steps: DataFrame) -> DataFrame:
    """Single steps that took much longer than usual, those of one cause and rank together."""
    times = F.concat(F.lit("duration_ns "), F.col("duration_ns").cast("string"), F.lit(", usually "),
                     F.col("median_ns").cast("string"))  # fmt: skip
    told = reference("aggregates.outlier_steps", times, *ATTEMPT_KEY, "step_name", "step_occurrence")
    slow = outlier_steps.filter("kind = 'slow'").withColumn(
        "shown", F.struct("excess_ns", F.concat(F.array(told), F.slice("evidence", 1, 2)).alias("said"))
    )
    found = slow.groupBy(*ATTEMPT_KEY, "step_name", "cause", "guilty_rank", "guilty_node_id").agg(
        F.count("*").alias("step_count"),
        F.min("step_occurrence").alias("first_step_occurrence"),
        F.max("step_occurrence").alias("last_step_occurrence"),
        F.max(F.col("duration_ns") / F.col("median_ns")).alias("times"),
        F.sum(F.col("excess_ns") * F.col("rank_count")).alias("lost_ns"),
        F.avg("confidence").alias("confidence"),
        F.slice(F.sort_array(F.collect_list("shown"), asc=False), 1, _SHOWN).alias("shown"),
    )
    evidence = F.flatten(F.transform("shown", lambda each: each["said"]))
    through = F.coalesce(F.concat(F.lit(" on rank "), F.col("guilty_rank").cast("string")), F.lit(""))
    steps = F.when(F.col("step_count") == 1, F.concat(F.lit("Step "), F.col("first_step_occurrence").cast("string")))
    many = F.concat(F.col("step_count").cast("string"), F.lit(" steps"))
    title = F.concat(
        F.coalesce(steps, many), F.lit(" took up to "), F.format_number("times", 1), F.lit(" times the usual time: "),
        F.replace("cause", F.lit("_"), F.lit(" ")), through,
    )  # fmt: skip
    return _finding(found.withColumn("evidence", evidence), F.lit("slow_steps"), title)


def usual_step(spent: DataFrame, kernel_stats: DataFrame, parameters: Parameters) -> DataFrame:
    """What every step loses on every rank: `spent` of usual.py, above the least share that each cause needs."""
    compute = F.col("kernel_class") != "communication"
    kernels = kernel_stats.groupBy(*ATTEMPT_KEY).agg(
        (F.sum(F.when(compute, F.col("duration_sum_ns"))) / F.sum(F.when(compute, F.col("kernel_count")))).alias(
            "mean_ns"
        )
    )
    least = F.when(F.col("cause") == "python_or_other", F.lit(parameters.finding_host_min_ratio)).when(
        F.col("cause") == "exposed_comm", F.lit(parameters.finding_comm_min_ratio)
    )
    share = F.col("spent_ns") / F.col("steps_ns")
    found = spent.withColumn("share", share).filter(
        (F.col("steps_ns") > 0) & (share >= F.coalesce(least, F.lit(parameters.finding_min_ratio)))
    )
    is_short = F.coalesce(F.col("mean_ns") < parameters.launch_bound_kernel_max_ns, F.lit(False))
    is_bound = (F.col("cause") == "python_or_other") & is_short
    times = F.concat(F.lit(" "), F.col("spent_ns").cast("string"), F.lit(" of "), F.col("steps_ns").cast("string"),
                     F.lit(" ns of the usual steps, on the "))  # fmt: skip
    which = F.when(F.col("cause") == "exposed_comm", F.lit("rank with least")).otherwise(F.lit("median rank"))
    what = F.concat(F.col("cause"), times, which)
    of_step = (*ATTEMPT_KEY, "step_name")
    by_class = reference("aggregates.step_ledger", what, *of_step)
    by_cause = reference("aggregates.idle_causes", what, *of_step, scope=F.lit("step"), cause=F.col("cause"))
    is_class = F.col("cause").isin(*CLASSES)
    rows = found.join(kernels, ATTEMPT_KEY, "left").withColumns(
        {
            "evidence": F.array(F.when(is_class, by_class).otherwise(by_cause)),
            "cause": F.when(is_bound, F.lit("launch_bound")).otherwise(F.col("cause")),
            "lost_ns": F.col("spent_sum_ns"),
            "confidence": _of_steps(parameters),
        }
    )
    title = F.concat(
        _percent("share"), F.lit(" of every step is lost on every rank: "), F.replace("cause", F.lit("_"), F.lit(" "))
    )
    return _finding(rows, F.lit("usual_step"), title)


def pipeline_bubbles(sent: DataFrame, parameters: Parameters) -> DataFrame:
    """What the stages of a pipeline wait for each other: `sent` of usual.py, from the least share of their time on."""
    share = F.col("spent_ns") / F.col("steps_ns")
    of_one = F.concat(F.lit("exposed_p2p_ns "), F.col("spent_ns").cast("string"), F.lit(" of "),
                      F.col("steps_ns").cast("string"), F.lit(" ns of the usual steps"))  # fmt: skip
    said = F.coalesce(
        reference("aggregates.step_ledger", of_one, *ATTEMPT_KEY, "step_name", "rank"),
        reference("aggregates.step_ledger", F.concat("who", F.lit(": "), of_one), *ATTEMPT_KEY, "step_name"),
    )
    stage = F.concat("who", F.lit(" ("), F.format_number(share * 100, 1), F.lit(" %)"))
    stages = sent.withColumn("stage", F.struct(share.alias("share"), stage.alias("name"), said.alias("said")))
    found = stages.groupBy(*ATTEMPT_KEY, "step_name").agg(
        F.max("step_count").alias("step_count"),
        F.min("first_step_occurrence").alias("first_step_occurrence"),
        F.max("last_step_occurrence").alias("last_step_occurrence"),
        F.sum("spent_ns").alias("lost_ns"),
        F.sum("steps_ns").alias("steps_ns"),
        F.max("stage").alias("most"),
        F.min("stage").alias("least"),
    )
    rows = found.withColumn("share", F.col("lost_ns") / F.col("steps_ns")).filter(
        F.col("share") >= parameters.finding_bubble_min_ratio
    )
    title = F.concat(
        F.lit("Pipeline bubbles: "), _percent("share"), F.lit(" of every step, "),
        F.format_number(F.col("lost_ns") / 1e9, 3), F.lit(" s in all, wait in sends and receives; most "),
        "most.name", F.lit(", least "), "least.name",
    )  # fmt: skip
    evidence = F.array_distinct(F.array("most.said", "least.said"))
    told = rows.withColumns(
        {"cause": F.lit("pipeline_bubble"), "evidence": evidence, "confidence": _of_steps(parameters)}
    )
    return _finding(told, F.lit("pipeline_bubbles"), title)


def fp32_products(kernel_stats: DataFrame, devices: DataFrame, parameters: Parameters) -> DataFrame:
    """Matrix products and convolutions in fp32 outside tensor cores that the devices have. All of their time is at
    stake, not all is won."""
    slow = is_fp32_product()
    of_one = F.concat(F.col("short_name"), F.lit(" duration_sum_ns "), F.col("duration_sum_ns").cast("string"))
    compute = kernel_stats.filter("kernel_class <> 'communication'").withColumn(
        "said", F.when(slow, reference("aggregates.kernel_stats", of_one, *ATTEMPT_KEY, "name"))
    )
    found = compute.groupBy(*ATTEMPT_KEY).agg(
        F.sum("duration_sum_ns").alias("all_ns"),
        F.sum(F.when(slow, F.col("duration_sum_ns"))).alias("lost_ns"),
        F.slice(F.sort_array(F.collect_list(F.when(slow, F.struct("duration_sum_ns", "said"))), asc=False), 1, _SHOWN)
        .alias("shown"),
    )  # fmt: skip
    share = F.col("lost_ns") / F.col("all_ns")
    large = found.withColumn("share", share).filter(share >= parameters.finding_min_ratio)
    rows = large.join(shorter_types(devices), ATTEMPT_KEY).filter("shorter_types IS NOT NULL")
    title = F.concat(
        _percent("share"), F.lit(" of compute kernel time are fp32 products without tensor cores: "),
        F.format_number(F.col("lost_ns") / 1e9, 3), F.lit(" s that could run as "), F.col("shorter_types"),
    )  # fmt: skip
    evidence = F.transform("shown", lambda each: each["said"])
    return _finding(
        rows.withColumns({"evidence": evidence, "cause": F.lit("precision")}),
        F.lit("precision"), title, severity="info",
    )  # fmt: skip


def memory_leaks(device_samples: DataFrame) -> DataFrame:
    """Devices whose memory in use grew steadily."""
    grew = F.concat(F.lit("memory_growth_bytes "), F.col("memory_growth_bytes").cast("string"))
    rows = device_samples.filter("is_memory_leak").withColumns(
        {
            "evidence": F.array(reference("aggregates.device_samples", grew, *ATTEMPT_KEY, "device_id")),
            "cause": F.lit("memory_leak"),
            "guilty_rank": F.col("rank"),
            "guilty_node_id": F.col("node_id"),
            "confidence": F.col("memory_rising_ratio"),
        }
    )
    title = F.concat(
        F.lit("Memory of "), F.coalesce(F.concat(F.lit("rank "), F.col("rank").cast("string")), F.col("device_id")),
        F.lit(" grew steadily by "), _percent("memory_growth_ratio"), F.lit(" of the device"),
    )  # fmt: skip
    return _finding(rows, F.lit("memory_leak"), title, severity="info")


def killed_processes(sources: DataFrame) -> DataFrame:
    """Processes that never closed their window."""
    ended = F.concat(F.lit("status interrupted, window_end_ns "), F.col("window_end_ns").cast("string"))
    rows = sources.filter("status = 'interrupted'").withColumn(
        "said", reference("normalized.sources", F.coalesce(ended, F.lit("status interrupted")), "job_id", "source_id")
    )
    found = rows.groupBy(*ATTEMPT_KEY).agg(
        F.count("*").alias("windows"),
        F.min("rank").alias("rank"),
        F.min("node_id").alias("node_id"),
        F.count_distinct("node_id").alias("nodes"),
        F.slice(F.sort_array(F.collect_list("said")), 1, _SHOWN).alias("evidence"),
    )
    one = F.col("windows") == 1
    who = F.when(one, F.coalesce(F.concat(F.lit("Rank "), F.col("rank").cast("string")), F.lit("A process")))
    title = F.concat(
        F.coalesce(who, F.concat(F.col("windows").cast("string"), F.lit(" processes"))),
        F.lit(" ended without closing its window: killed or crashed"),
    )
    told = found.withColumns(
        {
            "cause": F.lit("killed_process"),
            "guilty_rank": F.when(one, F.col("rank")),
            "guilty_node_id": F.when(F.col("nodes") == 1, F.col("node_id")),
        }
    )
    return _finding(told, F.lit("killed_process"), title)


def redone_steps(step_ledger: DataFrame) -> DataFrame:
    """Steps that an attempt had done and the next one did again, by the numbers in their names."""
    redone = redone_of(step_ledger)
    found = redone.groupBy(*ATTEMPT_KEY, "step_name").agg(
        F.count_distinct("step_occurrence").alias("step_count"),
        F.min("step_occurrence").alias("first_step_occurrence"),
        F.max("step_occurrence").alias("last_step_occurrence"),
        F.min("step_index").alias("from"),
        F.max("step_index").alias("to"),
        F.sum("duration_ns").alias("lost_ns"),
    )
    numbers = F.concat(F.lit(" "), F.col("from").cast("string"), F.lit(" to "), F.col("to").cast("string"))
    title = F.concat(
        F.col("step_count").cast("string"), F.lit(" steps were lost and done again by the next attempt:"), numbers
    )
    said = reference("aggregates.step_ledger", F.concat(F.lit("step_index"), numbers), *ATTEMPT_KEY, "step_name")
    return _finding(
        found.withColumns({"cause": F.lit("redone_steps"), "evidence": F.array(said)}), F.lit("redone_steps"), title
    )


def _of_steps(parameters: Parameters) -> Column:
    """Confidence in what usual steps say: of few it is not known whether they are the usual ones."""
    return F.least(F.col("step_count") / parameters.outlier_step_min_count, F.lit(1.0))


def _percent(name: str) -> Column:
    return F.concat(F.format_number(F.col(name) * 100, 1), F.lit(" %"))


def _finding(found: DataFrame, rule: Column, title: Column, *, severity: str = "warn") -> DataFrame:
    """`found` with all columns of a finding; those that it lacks are NULL, and a rule without doubts is sure."""
    told = {"rule": rule, "title": title, "severity": F.lit(severity), "remedy": remedy("cause")}
    lacking = {name: F.lit(None) for name in FINDING if name not in (*found.columns, *told)}
    if "confidence" in lacking:
        lacking["confidence"] = F.lit(1.0)
    return found.withColumns(told).withColumns(lacking).select(*FINDING)
