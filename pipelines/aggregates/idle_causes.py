"""Why each device was idle."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.activity import DEVICE_KEY, clipped, closed_steps, with_bucket
from tracelake.pipelines.functions.gaps import gaps
from tracelake.pipelines.functions.host import known_activities
from tracelake.pipelines.functions.intervals import sliced, sweep
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters

# What a thread does -> cause, innermost first: calls lie within annotations.
_LATE = {
    "synchronize": "synchronize",
    "call_copy": "copy",
    "data_loading": "data_loading",
    "copy": "copy",
    "compile": "compile",
    "checkpoint": "checkpoint",
    "communication_host": "communication_host",
}
_OTHER = ("launch_latency", "dependency", "queued", "unknown")
_NO_THREAD = -1
_SCOPE = ["scope", "source_id", "step_name", "step_occurrence", "bucket_start_ns"]


def idle_causes(
    sources: DataFrame,
    devices: DataFrame,
    kernels: DataFrame,
    memops: DataFrame,
    launches: DataFrame,
    syncs: DataFrame,
    annotations: DataFrame,
    step_launches: DataFrame,
    parameters: Parameters = DEFAULT,
) -> DataFrame:
    """One row per device, scope and cause; the causes of a scope sum to `idle_ns` of the device ledger.

    A gap is late by its host until its event's launch, by what the launching thread did then; afterwards it is launch
    latency, a dependency, queued or unknown. Scopes whose idle time the ledger withholds have no rows.
    """
    windows = with_bucket(sources.filter("gpu_reason IS NULL"), parameters.time_bucket_most_count)
    facts = ["attempt", "node_id", "rank", "window_start_ns", "window_end_ns", "bucket_ns"]
    places = (
        devices.select(*DEVICE_KEY)
        .join(F.broadcast(windows.select(*SOURCE_KEY, *facts)), SOURCE_KEY)
        .withColumns({PLACE: place(*DEVICE_KEY), "window": place(*SOURCE_KEY)})
    )
    idle = _pieces(gaps(places, kernels, memops, syncs), launches, parameters)
    steps = closed_steps(annotations, windows)
    host = _host(places, steps, known_activities(annotations, launches, syncs, parameters), launches)
    sums = _sums(idle.unionByName(host), places)
    return _scopes(sums, places, steps, step_launches)


def _pieces(found: DataFrame, launches: DataFrame, parameters: Parameters) -> DataFrame:
    """Gaps cut where their launch began and where its latency ends: (`place`, thread, label, start_ns, end_ns)."""
    start, end = F.col("start_ns"), F.col("end_ns")
    # Where the launch was queued before the gap, or there is none, nothing of it is the host's.
    called = F.least(F.coalesce("launch_start_ns", start), end)
    awake = F.when(F.col("launch_start_ns") < end, F.least(called + parameters.launch_latency_ns, end)).otherwise(
        called
    )
    rest = (
        F.when(F.col("launch_id").isNull(), F.lit("unknown"))
        .when(F.col("was_waiting"), F.lit("dependency"))
        .when(F.col("launch_start_ns").isNull(), F.lit("queued"))
        .otherwise(F.lit("unknown"))
    )
    parts = [(F.lit("late"), start, called), (F.lit("launch_latency"), called, awake), (rest, awake, end)]
    cut = F.array(*[F.struct(a.alias("label"), b.alias("start_ns"), c.alias("end_ns")) for a, b, c in parts])
    # Only a late host is asked for its thread; the other gaps get an id of their own, or they would be one partition.
    is_late = called > start
    ask = F.when(is_late, F.col("launch_id")).otherwise(-2 - F.col("start_ns"))
    threads = launches.select(place(*SOURCE_KEY).alias("window"), F.col("launch_id").alias("asked_id"), "thread_id")
    asked = found.withColumns({"asked_id": ask, "part": F.explode(cut)}).filter("part.end_ns > part.start_ns")
    thread = F.coalesce("thread_id", F.lit(_NO_THREAD)).alias("thread_id")
    none = F.lit(None).cast("bigint").alias("value")
    return asked.join(threads, ["window", "asked_id"], "left").select(PLACE, thread, "part.*", none)


def _host(places: DataFrame, steps: DataFrame, known: DataFrame, launches: DataFrame) -> DataFrame:
    """What threads did, and the steps, beside every device and thread that they can be asked of."""
    thread = F.coalesce("thread_id", F.lit(_NO_THREAD)).alias("thread_id")
    of_window = places.select(F.col("window"), PLACE)
    busy = known.withColumnRenamed(PLACE, "window").withColumn("thread_id", thread)
    did = busy.join(F.broadcast(of_window), "window").withColumn("value", F.lit(None).cast("bigint"))
    threads = launches.select(place(*SOURCE_KEY).alias("window"), thread).distinct()
    every = threads.join(F.broadcast(of_window), "window").select(PLACE, "thread_id")
    none = of_window.select(PLACE, F.lit(_NO_THREAD).cast("bigint").alias("thread_id"))
    marks = steps.select(
        place(*SOURCE_KEY).alias("window"), F.lit("step").alias("label"), "start_ns", "end_ns",
        F.col("annotation_id").alias("value"),
    )  # fmt: skip
    asked = every.unionByName(none).distinct()
    inside = marks.join(F.broadcast(of_window), "window").join(asked, PLACE)
    columns = [PLACE, "thread_id", "label", "start_ns", "end_ns", "value"]
    return did.select(*columns).unionByName(inside.select(*columns))


def _sums(labelled: DataFrame, places: DataFrame) -> DataFrame:
    """Idle time by device, bucket, step (annotation_id) and cause."""
    inside = clipped(labelled, places, [PLACE])
    wide = inside.join(F.broadcast(places.select(PLACE, "bucket_ns")), PLACE)
    pieces = sliced(wide, "start_ns", "end_ns", F.col("window_start_ns"), F.col("bucket_ns"))
    stretches = sweep(pieces, [PLACE, "thread_id", "slice"], ["late", *_OTHER, *_LATE, "step"], told="step")
    late = F.coalesce(*[F.when(F.col(label), F.lit(cause)) for label, cause in _LATE.items()], F.lit("python_or_other"))
    cause = F.coalesce(F.when(F.col("late"), late), *[F.when(F.col(label), F.lit(label)) for label in _OTHER])
    return (
        stretches.withColumn("cause", cause)
        .filter("cause IS NOT NULL")
        .groupBy(PLACE, F.col("slice").alias("bucket"), F.col("value").alias("annotation_id"), "cause")
        .agg(F.sum(F.col("end_ns") - F.col("start_ns")).alias("idle_ns"))
    )


def _scopes(sums: DataFrame, places: DataFrame, steps: DataFrame, step_launches: DataFrame) -> DataFrame:
    """Each sum counted in the job, its window, its bucket, and its step where the ledger has that."""
    uncovered = step_launches.filter("is_uncovered").select(
        *SOURCE_KEY, F.col("step_name").alias("name"), "step_occurrence"
    )
    counted = steps.filter("NOT is_cut").join(uncovered, [*SOURCE_KEY, "name", "step_occurrence"], "left_anti")
    named = counted.select(*SOURCE_KEY, "annotation_id", F.col("name").alias("step_name"), "step_occurrence")
    placed = sums.join(F.broadcast(places), PLACE).join(named, [*SOURCE_KEY, "annotation_id"], "left")
    start = F.col("window_start_ns") + F.col("bucket") * F.col("bucket_ns")
    scopes = [
        _scope("job", False),
        _scope("window"),
        _scope("bucket", bucket_start_ns=start),
        F.when(
            F.col("step_name").isNotNull(),
            _scope("step", step_name=F.col("step_name"), step_occurrence=F.col("step_occurrence")),
        ),
    ]
    whole = F.explode(F.array_compact(F.array(*scopes)))
    told = placed.withColumn("in", whole).select(
        "job_id", "attempt", "device_id", "node_id", "rank", "cause", "idle_ns", "in.*"
    )
    return told.groupBy("job_id", "attempt", "device_id", "cause", *_SCOPE).agg(
        F.min("node_id").alias("node_id"),
        F.min("rank").alias("rank"),
        F.sum("idle_ns").alias("idle_ns"),
        F.lit(METRIC_VERSION).alias("metric_version"),
    )


def _scope(name: str, has_window: bool = True, **told: Column) -> Column:
    types = {"source_id": "string", "step_name": "string", "step_occurrence": "bigint", "bucket_start_ns": "bigint"}
    if has_window:
        told["source_id"] = F.col("source_id")
    fields = [told.get(each, F.lit(None)).cast(kind).alias(each) for each, kind in types.items()]
    return F.struct(F.lit(name).alias("scope"), *fields)
