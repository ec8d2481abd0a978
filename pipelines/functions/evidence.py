"""References to the rows that prove a cause: a table, the predicate that finds them, and what stands there."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.blame import STEP
from tracelake.pipelines.functions.host import activity
from tracelake.pipelines.functions.intervals import open_then
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import Parameters

OWN_STEP = [*SOURCE_KEY, "step_name", "own_occurrence"]
"""A step as events know it: numbered within its window."""


def reference(table: str, said: Column, *keys: str, **more: Column) -> Column:
    """`<table> WHERE <predicate>: <what stands there>`; NULL where a part of it is."""
    parts = [F.lit(f"{table} WHERE "), _equal(keys[0], F.col(keys[0]))]
    for name, value in [*((key, F.col(key)) for key in keys[1:]), *more.items()]:
        parts += [F.lit(" AND "), _equal(name, value)]
    return F.concat(*parts, F.lit(": "), said)


def _equal(name: str, value: Column) -> Column:
    is_text = name in ("job_id", "source_id", "device_id")
    is_number = name in ("attempt", "rank") or (name.endswith(("_id", "_occurrence")) and not is_text)
    quoted = F.concat(F.lit("'"), F.replace(value.cast("string"), F.lit("'"), F.lit("''")), F.lit("'"))
    return F.concat(F.lit(f"{name} = "), value.cast("string") if is_number else quoted)


def said(name: str, value: Column, usual: Column) -> Column:
    """`duration_ns 400, usually 100`."""
    return F.concat(F.lit(f"{name} "), value.cast("string"), F.lit(", usually "), usual.cast("string"))


def kernel_evidence(asked: DataFrame, kernels: DataFrame, kernel_stats: DataFrame) -> DataFrame:
    """Per step (`STEP`), the kernel that took longest compared with the median of its name. `asked` are steps with
    `OWN_STEP`, and `is_comm`: whether to look among communication kernels.
    """
    ran = kernels.withColumnRenamed("step_occurrence", "own_occurrence").select(
        *OWN_STEP, "event_id", "name", "short_name", "duration_ns", "kernel_class"
    )
    of_step = ran.join(F.broadcast(asked.select(*STEP, "source_id", "own_occurrence", "is_comm")), OWN_STEP)
    of_kind = of_step.filter((F.col("kernel_class") == "communication") == F.col("is_comm"))
    usual = kernel_stats.select("job_id", "attempt", "name", "duration_p50_ns")
    compared = said("duration_ns", F.col("duration_ns"), F.col("duration_p50_ns"))
    what = F.concat(F.col("short_name"), F.lit(" "), compared)
    told = of_kind.join(usual, ["job_id", "attempt", "name"]).withColumn(
        "text", reference("normalized.kernels", what, *SOURCE_KEY, "event_id")
    )
    return told.groupBy(*STEP).agg(
        F.max_by("text", F.struct(F.col("duration_ns") - F.col("duration_p50_ns"), "event_id")).alias("kernel_text")
    )


def annotation_evidence(asked: DataFrame, annotations: DataFrame, parameters: Parameters) -> DataFrame:
    """Per step (`STEP`), the longest annotation in it that stands for its cause. `asked` are steps with source_id,
    start_ns, end_ns and cause; `host_work` are those that stand for nothing known, innermost first.
    """
    label = F.coalesce(activity("name", parameters), F.lit("host_work"))
    host = annotations.filter("side = 'host' AND is_closed AND NOT is_step").select(
        *SOURCE_KEY, "annotation_id", "text", "depth", F.col("start_ns").alias("at_ns"), "duration_ns",
        label.alias("label"),
    )  # fmt: skip
    mine = host.join(F.broadcast(asked.select(*SOURCE_KEY).distinct()), SOURCE_KEY, "left_semi")
    steps = asked.select(place(*SOURCE_KEY), F.struct(*STEP, "cause").alias("value"), "start_ns", "end_ns")
    placed = open_then(mine.withColumn(PLACE, place(*SOURCE_KEY)), steps, [PLACE], "step")
    inside = placed.filter("label = step.cause").select("*", *[F.col(f"step.{each}").alias(each) for each in STEP[1:]])
    what = F.concat(F.col("text"), F.lit(" duration_ns "), F.col("duration_ns").cast("string"))
    told = inside.withColumn("said", reference("normalized.annotations", what, *SOURCE_KEY, "annotation_id"))
    return told.groupBy(*STEP).agg(
        F.max_by("said", F.struct("duration_ns", "depth", "annotation_id")).alias("annotation_text")
    )


def idle_evidence(asked: DataFrame, idle_causes: DataFrame, step_ledger: DataFrame) -> DataFrame:
    """Per step (`STEP`), its idle time by cause on the process's devices: `idle`, an array of excess_ns above
    the mean of the window's other steps, cause, and `said`. `asked` are steps with `OWN_STEP`.
    """
    windows = [*SOURCE_KEY, "step_name"]
    counts = step_ledger.groupBy(*windows).agg(F.count(F.lit(1)).alias("steps"))
    own = idle_causes.filter("scope = 'step'").withColumnRenamed("step_occurrence", "own_occurrence")
    mine = own.join(F.broadcast(asked.select(*windows).distinct()), windows, "left_semi")
    by_step = mine.groupBy(*OWN_STEP, "cause").agg(F.sum("idle_ns").alias("idle_ns"))
    totals = by_step.groupBy(*windows, "cause").agg(F.sum("idle_ns").alias("total_ns"))
    here = F.broadcast(asked.select(*STEP, "source_id", "own_occurrence"))
    found = by_step.join(here, OWN_STEP).join(totals, [*windows, "cause"]).join(counts, windows)
    rest = F.col("total_ns") - F.col("idle_ns")
    usual = F.when(F.col("steps") > 1, F.call_function("div", rest, F.col("steps") - 1))  # of one step nobody knows it
    what = F.concat(F.col("cause"), F.lit(" "), said("idle_ns", F.col("idle_ns"), F.col("usual_ns")))
    keys = {"scope": F.lit("step"), "step_occurrence": F.col("own_occurrence"), "cause": F.col("cause")}
    told = found.withColumn("usual_ns", usual).withColumn(
        "said", reference("aggregates.idle_causes", what, *SOURCE_KEY, "step_name", **keys)
    )
    one = F.struct((F.col("idle_ns") - F.col("usual_ns")).alias("excess_ns"), "cause", "said")
    return told.groupBy(*STEP).agg(F.collect_list(one).alias("idle"))


def throttle_evidence(
    asked: DataFrame, step_samples: DataFrame, device_samples: DataFrame, parameters: Parameters
) -> DataFrame:
    """Per step (`STEP`), `throttle_text` where samples in it show the clock lowered by heat, or low, more than is
    usual for the device. `asked` are steps with source_id.
    """
    metrics = ("throttled_ratio", "sm_clock")
    read = step_samples.filter("scope = 'step' AND entity_kind = 'device'").filter(F.col("metric").isin(*metrics))
    here = read.withColumnsRenamed({"name": "step_name", "entity_id": "device_id"}).join(
        F.broadcast(asked.select(*STEP, "source_id")), [*STEP, "source_id"]
    )
    usual = device_samples.select("job_id", "attempt", "device_id", "throttled_ratio", "clock_median_hz")
    facts = here.join(usual, ["job_id", "attempt", "device_id"])
    often = parameters.throttled_sample_min_ratio
    is_hot = (
        (F.col("metric") == "throttled_ratio") & (F.col("value_mean") >= often) & (F.col("throttled_ratio") < often)
    )
    low = F.col("clock_median_hz") * (1 - parameters.clock_drop_min_ratio)
    is_low = (F.col("metric") == "sm_clock") & (F.col("value_mean") < low)
    normal = F.when(F.col("metric") == "sm_clock", F.col("clock_median_hz")).otherwise(F.col("throttled_ratio"))
    what = F.concat(F.col("metric"), F.lit(" "), said("value_mean", F.col("value_mean"), normal))
    told = facts.filter(is_hot | is_low).withColumn(
        "said",
        reference(
            "aggregates.step_samples", what, "job_id", "source_id", scope=F.lit("step"), name=F.col("step_name"),
            step_occurrence=F.col("step_occurrence"), metric=F.col("metric"),
        ),
    )  # fmt: skip
    return told.groupBy(*STEP).agg(F.max("said").alias("throttle_text"))
