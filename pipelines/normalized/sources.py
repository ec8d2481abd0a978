"""Recorded windows: which process, when, how complete, and every row accounted for."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import SOURCE_KEY, one_per_window
from tracelake.pipelines.parameters import DEFAULT, Parameters

_CUT = ("incomplete", "interrupted")


def sources(
    source: DataFrame,
    kernels: DataFrame,
    memops: DataFrame,
    launches: DataFrame,
    ranges: DataFrame,
    quarantine: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """One row per window.

    The window is what was recorded: as the recorder says it, else from the first start to the last effective end of
    host events, kernels and memory operations. A capture known to be cut ends at its last device event (at its last
    host event where it has none).
    """
    windows = _interrupted(one_per_window(source))
    joined = windows
    for facts in (_device(kernels, memops), _launch(launches), _host(ranges), _set_aside(quarantine)):
        joined = joined.join(facts, SOURCE_KEY, "left")
    for name in ("kernel_count", "memop_count", "orphan_count", "launch_count", "producing_launch_count",
                 "covered_launch_count", "aside"):  # fmt: skip
        joined = joined.withColumn(name, F.coalesce(name, F.lit(0)))
    return _accounted(_judged(_windowed(joined), parameters)).select(
        "day", "job_id", "attempt", "source_id", "node_id", "rank", "format", "world_size", "process_id",
        "process_name", "status", "status_reason", "capture", "capture_reason", "gpu_reason",
        "window_start_ns", "window_end_ns", "previous_source_id",
        F.lit(None).cast("bigint").alias("clock_offset_ns"), F.lit(None).cast("bigint").alias("clock_residual_ns"),
        "device_clock_offset_ns", "kernel_count", "producing_launch_count", "covered_launch_count",
        "launch_coverage_ratio", "orphan_count", "flags", "rows_read", "rows_stored", "rows_quarantined",
        "rows_deduplicated", "rows_skipped", "file", "file_sha256", "read_bytes",
    )  # fmt: skip


def _interrupted(windows: DataFrame) -> DataFrame:
    """A window without a closing row was killed, not running, once another of its attempt tells how the job ended."""
    attempt = Window.partitionBy("job_id", "attempt")
    has_ended = F.max(F.col("is_closed") & F.col("state").isin("completed", "failed", "stopped")).over(attempt)
    killed = (F.col("status") == "running") & ~F.col("is_closed") & F.coalesce(has_ended, F.lit(False))
    return windows.withColumns(
        {
            "status": F.when(killed, F.lit("interrupted")).otherwise(F.col("status")),
            "status_reason": F.when(killed, F.lit("no_closing_row")).otherwise(F.col("status_reason")),
        }
    )


def _device(kernels: DataFrame, memops: DataFrame) -> DataFrame:
    columns = [*SOURCE_KEY, "start_ns", "launch_id"]
    events = kernels.select(
        *columns, F.col("effective_end_ns").alias("end_ns"), F.lit(1).alias("is_kernel")
    ).unionByName(memops.select(*columns, "end_ns", F.lit(0).alias("is_kernel")))
    return events.groupBy(*SOURCE_KEY).agg(
        F.min("start_ns").alias("device_start_ns"),
        F.max("end_ns").alias("device_end_ns"),
        F.sum("is_kernel").alias("kernel_count"),
        F.sum(1 - F.col("is_kernel")).alias("memop_count"),
        F.sum(F.col("launch_id").isNull().cast("int")).alias("orphan_count"),
    )


def _launch(launches: DataFrame) -> DataFrame:
    early = F.col("start_ns") - F.col("first_event_start_ns")
    return launches.groupBy(*SOURCE_KEY).agg(
        F.count("*").alias("launch_count"),
        F.min("start_ns").alias("launch_start_ns"),
        F.max("end_ns").alias("launch_end_ns"),
        F.sum(F.col("is_kernel_producing").cast("int")).alias("producing_launch_count"),
        F.sum((F.col("is_kernel_producing") & (F.col("kernel_count") > 0)).cast("int")).alias("covered_launch_count"),
        F.max(F.when(early > 0, early)).alias("device_clock_offset_ns"),
    )


def _host(ranges: DataFrame) -> DataFrame:
    return ranges.groupBy(*SOURCE_KEY).agg(
        F.min("start_ns").alias("annotation_start_ns"), F.max("end_ns").alias("annotation_end_ns")
    )


def _set_aside(quarantine: DataFrame) -> DataFrame:
    """Rows that a check set aside after they were read; those lost on reading are counted in raw already."""
    return (
        quarantine.filter("kind <> 'loss'")
        .groupBy(*SOURCE_KEY)
        .agg(
            F.sum("rows_count").alias("aside"),
            F.max(F.col("reason").startswith("segment_")).alias("has_lost_segment"),
        )
    )


def _windowed(rows: DataFrame) -> DataFrame:
    host_start = F.least("host_start_ns", "launch_start_ns", "annotation_start_ns")
    host_end = F.greatest("host_end_ns", "launch_end_ns", "annotation_end_ns")
    cut_end = F.when(F.col("status").isin(*_CUT), F.coalesce("device_end_ns", host_end))
    start = F.coalesce("window_start_ns", F.least(host_start, "device_start_ns"))
    end = F.coalesce(cut_end, "window_end_ns", F.greatest(host_end, "device_end_ns"))
    return rows.withColumn("window_start_ns", start).withColumn("window_end_ns", F.greatest(start, end))


def _judged(rows: DataFrame, parameters: Parameters) -> DataFrame:
    coverage = F.when(
        F.col("producing_launch_count") > 0, F.col("covered_launch_count") / F.col("producing_launch_count")
    )
    events = F.col("kernel_count") + F.col("memop_count")
    reason = (
        F.when((events == 0) & (F.col("launch_count") > 0), F.lit("gpu_capture_failed"))
        .when(events == 0, F.lit("no_gpu_activity_captured"))
        .when(coverage < parameters.launch_coverage_min_ratio, F.lit("low_launch_coverage"))
    )
    withheld = reason.isin("gpu_capture_failed", "low_launch_coverage")
    was_complete, lost = F.col("status") == "complete", F.coalesce("has_lost_segment", F.lit(False))
    status = (
        F.when(was_complete & lost, F.lit("incomplete"))
        .when(was_complete & withheld, F.lit("degraded"))
        .otherwise(F.col("status"))
    )
    return (
        rows.withColumn("launch_coverage_ratio", coverage)
        .withColumn("gpu_reason", reason)
        .withColumn(
            "status_reason", F.coalesce("status_reason", F.when(lost, F.lit("segment_lost")), F.when(withheld, reason))
        )
        .withColumn("status", status)
        .withColumn("flags", _flags())
    )


def _flags() -> Column:
    more = F.array_compact(
        F.array(
            F.when(F.col("rank").isNull(), F.lit("rank_missing")),
            F.when(F.col("orphan_count") > 0, F.lit("orphans")),
            F.when(F.col("device_clock_offset_ns").isNotNull(), F.lit("before_launch")),
        )
    )
    return F.array_distinct(F.concat(F.col("flags"), more))


def _accounted(rows: DataFrame) -> DataFrame:
    return (
        rows.withColumn("rows_read", F.col("rows_read_count"))
        .withColumn("rows_stored", F.col("rows_stored_count") - F.col("aside"))
        .withColumn("rows_quarantined", F.col("rows_quarantined_count") + F.col("aside"))
        .withColumn("rows_deduplicated", F.col("rows_deduplicated_count"))
        .withColumn("rows_skipped", F.col("rows_skipped_count"))
    )
