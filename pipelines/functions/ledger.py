"""What a stretch of a process's time is made of: each instant goes to the first live class."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import clipped, device_events
from tracelake.pipelines.functions.host import matches
from tracelake.pipelines.functions.intervals import sliced, sweep
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import Parameters

# Label of an interval -> column of the first class that is live, in order of precedence.
CLASSES = {
    "comp": "compute_ns",
    "comm": "exposed_comm_ns",
    "memcpy": "memcpy_ns",
    "memset": "memset_ns",
    "runtime": "runtime_ns",
    "data_loading": "data_loading_ns",
    "host_work": "host_work_ns",
}

SENDS = "sends"
"""Label of intervals in which sends or receives run. They are communication too: no class of their own."""


def live_intervals(
    annotations: DataFrame,
    kernels: DataFrame,
    memops: DataFrame,
    launches: DataFrame,
    syncs: DataFrame,
    parameters: Parameters,
) -> DataFrame:
    """Everything that can be live in a step, as (place, label, start_ns, end_ns).

    Runtime calls and annotated host work count on any thread of the process, data loading only on the thread that runs
    the steps (elsewhere it runs ahead and holds nobody).
    """
    columns: list[Column | str] = [place(*SOURCE_KEY), "label", "start_ns", "end_ns"]
    device = device_events(kernels, memops).select(*columns)
    runtime = F.lit("runtime").alias("label")
    calls = launches.select(place(*SOURCE_KEY), runtime, "start_ns", "end_ns")
    waits = syncs.filter("thread_id IS NOT NULL").select(place(*SOURCE_KEY), runtime, "start_ns", "end_ns")
    host = annotations.filter("side = 'host' AND NOT is_step AND is_closed")
    threads = annotations.filter("is_step").groupBy(*SOURCE_KEY).agg(F.min("thread_id").alias("step_thread_id"))
    loads = matches("name", parameters.data_loading_patterns)
    on_step_thread = F.col("thread_id").eqNullSafe(F.col("step_thread_id"))
    label = F.when(loads & on_step_thread, F.lit("data_loading")).otherwise(F.lit("host_work"))
    work = host.join(F.broadcast(threads), SOURCE_KEY).filter(~loads | on_step_thread).withColumn("label", label)
    return device.unionByName(calls).unionByName(waits).unionByName(work.select(*columns))


def class_sums(live: DataFrame, marks: DataFrame, sources: DataFrame) -> DataFrame:
    """Per (place, value) the time of each class in that mark; marks without anything live are left out.

    `marks` are disjoint stretches (place, start_ns, end_ns, value) of a source; `live` is clipped to the windows. Where
    it has intervals of `SENDS`, `exposed_p2p_ns` is their part of exposed communication; NULL in marks without any.
    """
    bounds = sources.select(place(*SOURCE_KEY), "window_start_ns", "window_end_ns")
    marked = marks.select(PLACE, F.lit("mark").alias("label"), "start_ns", "end_ns", "value")
    inside = clipped(live.withColumn("value", F.lit(None).cast("bigint")), bounds, [PLACE])
    both = inside.select(*marked.columns).unionByName(marked)
    stretches = sweep(sliced(both, "start_ns", "end_ns"), [PLACE, "slice"], [*CLASSES, SENDS, "mark"], told="mark")
    length = F.col("end_ns") - F.col("start_ns")
    sums, higher = [], F.lit(False)
    for label, column in CLASSES.items():
        sums.append(F.sum(F.when(F.col(label) & ~higher, length).otherwise(0)).alias(column))
        higher = higher | F.col(label)
    exposed = F.when(F.col("comm") & ~F.col("comp"), length).otherwise(0)
    sums.append(F.sum(F.when(F.col(SENDS), exposed)).alias("exposed_p2p_ns"))
    return stretches.filter("mark").groupBy(PLACE, "value").agg(*sums)
