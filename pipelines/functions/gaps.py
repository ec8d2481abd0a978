"""Where a device had nothing to do, and what ended each gap."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import DEVICE_KEY, clipped
from tracelake.pipelines.functions.intervals import SLICE_NS
from tracelake.pipelines.functions.streams import lane
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place

_MARKER, _EVENT, _END = range(3)
"""What a row is; of one instant, markers come first."""
_SLICE = [PLACE, "slice"]


def gaps(places: DataFrame, kernels: DataFrame, memops: DataFrame, syncs: DataFrame) -> DataFrame:
    """Gaps of all activity of a device (`place`) in its window: start_ns, end_ns, and of the event that ends one
    `window` (the place of its source), launch_id, and

    - launch_start_ns: start of its launch, where that is no earlier than the gap; NULL where it was queued before
    - was_waiting: its stream waited for an event in the gap; or it was queued before and its stream was free, while
      only others' work held the device until the gap began

    The gap after the last event has no launch. `places` are rows of `place`, window_start_ns, window_end_ns.
    """
    rows = _rows(places, kernels, memops, syncs)
    before = Window.partitionBy(*_SLICE).orderBy("start_ns", "turn", F.asc_nulls_last("launch_start_ns"), "event_id")
    on_lane = Window.partitionBy(*_SLICE, "lane").orderBy("start_ns", "turn")
    seen = (
        rows.join(_carried(rows, [PLACE], reach="end_ns"), _SLICE)
        .join(_carried(rows, [PLACE, "lane"], own="end_ns", marked="marker_ns"), [*_SLICE, "lane"], "left")
        .withColumn("reach", F.greatest("reach", F.max("end_ns").over(_past(before, -1))))
        .withColumn("own", F.greatest("own", F.max("end_ns").over(_past(on_lane, -1))))
        .withColumn("marked", F.greatest("marked", F.max("marker_ns").over(_past(on_lane, 0))))
    )
    start = F.coalesce("reach", "window_start_ns")
    found = seen.filter("marker_ns IS NULL").filter(F.col("start_ns") > start)
    launched = F.when(F.col("launch_start_ns") >= start, F.col("launch_start_ns"))
    was_marked = F.coalesce(F.col("marked") >= start, F.lit(False))
    was_held = (
        launched.isNull() & F.col("reach").isNotNull() & ~F.coalesce(F.col("own") == F.col("reach"), F.lit(False))
    )
    return found.select(
        PLACE, "window", "launch_id", start.alias("start_ns"), F.col("start_ns").alias("end_ns"),
        launched.alias("launch_start_ns"), (was_marked | was_held).alias("was_waiting"),
    )  # fmt: skip


def _rows(places: DataFrame, kernels: DataFrame, memops: DataFrame, syncs: DataFrame) -> DataFrame:
    """Events of a device, markers of its streams, and one row at its window's end, with the slice that each is in."""
    window, stream = place(*SOURCE_KEY).alias("window"), lane().alias("lane")
    at: list[Column | str] = [place(*DEVICE_KEY), window, stream, "event_id", "start_ns"]
    # An event before its launch (a broken clock) is as late as its launch could make it: the whole gap.
    is_early = F.array_contains("flags", "before_launch")
    called = F.when(is_early, F.col("start_ns")).otherwise(F.col("start_ns") - F.col("launch_delay_ns"))
    launch: list[Column | str] = [called.alias("launch_start_ns"), "launch_id", F.lit(_EVENT).alias("turn")]
    ran = kernels.select(*at, F.col("effective_end_ns").alias("end_ns"), *launch)
    # Kernels and memory operations are numbered apart.
    moved = memops.withColumn("event_id", -1 - F.col("event_id")).select(*at, "end_ns", *launch)
    inside = clipped(ran.unionByName(moved), places, [PLACE])
    waits = syncs.filter("NOT is_blocking AND device_id IS NOT NULL AND kind LIKE '%wait%'")
    markers = waits.select(*at, F.col("start_ns").alias("marker_ns"), F.lit(_MARKER).alias("turn"))
    ends = places.select(
        PLACE, "window_start_ns", F.col("window_end_ns").alias("start_ns"), F.lit(_END).alias("turn")
    ).filter("start_ns > window_start_ns")
    marked = inside.drop("window_end_ns").unionByName(markers, allowMissingColumns=True)
    rows = marked.unionByName(ends, allowMissingColumns=True)
    return rows.withColumn("slice", F.call_function("div", F.col("start_ns"), F.lit(SLICE_NS)))


def _carried(rows: DataFrame, key: list[str], **values: str) -> DataFrame:
    """Per key and slice, the greatest values of the slices before it: no device's events are one partition."""
    earlier = _past(Window.partitionBy(*key).orderBy("slice"), -1)
    greatest = rows.groupBy(*key, "slice").agg(*[F.max(column).alias(name) for name, column in values.items()])
    return greatest.withColumns({name: F.max(name).over(earlier) for name in values})


def _past(in_time: WindowSpec, last: int) -> WindowSpec:
    return in_time.rowsBetween(Window.unboundedPreceding, last)
