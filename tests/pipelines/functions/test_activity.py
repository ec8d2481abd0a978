"""What both ledgers read: labelled device time, clipped intervals, closed steps, and the width of time buckets."""

from __future__ import annotations

from expect import Row, Rows, small_data
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import clipped, closed_steps, device_events, nice, with_bucket
from tracelake.schemas.normalized.annotations import TABLE as ANNOTATIONS
from tracelake.schemas.normalized.kernels import TABLE as KERNELS
from tracelake.schemas.normalized.memops import TABLE as MEMOPS
from tracelake.schemas.normalized.sources import TABLE as SOURCES


def smallest_nice(at_least: int) -> int:
    power = 1
    while True:
        for step in (1, 2, 5):
            if step * power >= at_least:
                return step * power
        power *= 10


def test_widths_come_from_the_1_2_5_series(spark: SparkSession) -> None:
    near = [mantissa * 10**power + beside for power in range(16) for mantissa in (1, 2, 5) for beside in (-1, 0, 1)]
    asked = sorted({value for value in [*near, *range(1, 60), 123_456_789, 987_654_321_012] if value > 0})
    with small_data(spark):
        rows = spark.createDataFrame([(value,) for value in asked], "value bigint").select(
            "value", nice(F.col("value"))
        )
        got = {row["value"]: row[1] for row in rows.collect()}
    assert got == {value: smallest_nice(value) for value in asked}


def test_a_width_of_nothing_is_1(spark: SparkSession) -> None:
    with small_data(spark):
        assert spark.range(1).select(nice(F.col("id"))).collect()[0][0] == 1


def test_an_attempt_has_one_width_and_at_most_so_many_buckets(rows: Rows) -> None:
    windows: list[Row] = [
        {"source_id": "a", "window_start_ns": 0, "window_end_ns": 120_000},
        {"source_id": "b", "window_start_ns": 500_000, "window_end_ns": 500_007},
        {"source_id": "c", "window_start_ns": 0, "window_end_ns": 120_001, "attempt": 1},
    ]
    made = rows(SOURCES, *windows)
    with small_data(made.sparkSession):
        got = {row["source_id"]: row["bucket_ns"] for row in with_bucket(made, 120).collect()}
    assert got == {"a": 1_000, "b": 1_000, "c": 2_000}


def test_kernels_are_computation_or_communication_and_end_where_they_can(rows: Rows) -> None:
    kernels = rows(
        KERNELS,
        {"event_id": 1, "kernel_class": "gemm", "start_ns": 10, "end_ns": 900, "effective_end_ns": 20},
        {"event_id": 2, "kernel_class": "communication", "start_ns": 30, "end_ns": 40, "effective_end_ns": 40},
    )
    memops = rows(MEMOPS, *[{"kind": kind, "start_ns": 50, "end_ns": 60} for kind in ("memcpy", "memset")])
    with small_data(kernels.sparkSession):
        got = device_events(kernels, memops).select("label", "start_ns", "end_ns").collect()
    assert sorted(map(tuple, got)) == [("comm", 30, 40), ("comp", 10, 20), ("memcpy", 50, 60), ("memset", 50, 60)]


def test_intervals_are_cut_to_their_own_window(rows: Rows) -> None:
    windows = rows(
        SOURCES, *[{"source_id": s, "window_start_ns": a, "window_end_ns": 100} for s, a in (("a", 0), ("b", 50))]
    )
    times = [("a", -20, 10), ("a", 90, 200), ("a", 100, 200), ("a", -20, 0), ("a", 30, 30), ("b", 0, 100), ("b", 0, 50)]
    given = rows(MEMOPS, *[{"source_id": s, "start_ns": a, "end_ns": b} for s, a, b in times])
    with small_data(windows.sparkSession):
        got = clipped(given, windows).select("source_id", "start_ns", "end_ns").collect()
    assert sorted(map(tuple, got)) == [("a", 0, 10), ("a", 90, 100), ("b", 50, 100)]


def test_steps_are_closed_have_a_length_and_say_whether_the_window_cuts_them(rows: Rows) -> None:
    def step(number: int, start: int, end: int | None, **more: object) -> Row:
        length = None if end is None else end - start
        times = {"start_ns": start, "end_ns": end, "duration_ns": length, "is_closed": end is not None}
        return {"annotation_id": number, "step_occurrence": number, "is_step": True, **times, **more}

    annotations = rows(
        ANNOTATIONS, step(0, 0, 50), step(1, 50, 100), step(2, 90, 101), step(3, 20, 20), step(4, 60, None),
        step(5, 0, 9, is_step=False),
    )  # fmt: skip
    windows = rows(SOURCES, {"window_start_ns": 0, "window_end_ns": 100})
    with small_data(windows.sparkSession):
        got = closed_steps(annotations, windows).select("step_occurrence", "is_cut", "window_end_ns").collect()
    assert sorted(map(tuple, got)) == [(0, False, 100), (1, False, 100), (2, True, 100)]
