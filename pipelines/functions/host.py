"""What host threads do, as far as annotations and calls tell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.intervals import nested, tops
from tracelake.pipelines.functions.where import PLACE, SOURCE_KEY, place
from tracelake.pipelines.parameters import Parameters

_THREAD = [PLACE, "thread_id"]


def matches(name: str, patterns: Sequence[str]) -> Column:
    """Whether a name holds one of the patterns, upper or lower case."""
    return reduce(lambda found, pattern: found | F.lower(name).rlike(pattern), patterns, F.lit(False))


def activity(name: str, parameters: Parameters) -> Column:
    """What a host annotation of that name stands for; NULL where the name tells nothing."""
    named = {
        "data_loading": parameters.data_loading_patterns,
        "checkpoint": parameters.checkpoint_patterns,
        "compile": parameters.compile_patterns,
        "communication_host": parameters.communication_host_patterns,
        "copy": parameters.copy_patterns,
    }
    return F.coalesce(*[F.when(matches(name, patterns), F.lit(label)) for label, patterns in named.items()])


def known_activities(
    annotations: DataFrame, launches: DataFrame, syncs: DataFrame, parameters: Parameters
) -> DataFrame:
    """(`place` of the source, thread_id, label, start_ns, end_ns): what each thread is known to do, innermost first.

    Stretches of annotations are disjoint; calls (`synchronize`, and `copy` of a copying call) lie within them.
    """
    at: list[Column | str] = [place(*SOURCE_KEY), "thread_id"]
    waits = syncs.filter("is_blocking")
    copies = launches.filter(F.lower("api_name").contains("memcpy"))
    calls = waits.select(*at, F.lit("synchronize").alias("label"), "start_ns", "end_ns").unionByName(
        copies.select(*at, F.lit("call_copy").alias("label"), "start_ns", "end_ns")
    )
    host = annotations.filter("side = 'host' AND is_closed AND NOT is_step").withColumn(
        "label", activity("name", parameters)
    )
    # The label is part of the id, so that the stretches carry it.
    known = host.filter("label IS NOT NULL").select(
        *at, F.struct("annotation_id", "label").alias("id"), "start_ns", "end_ns"
    )
    inner = tops(nested(known, _THREAD), _THREAD)
    named = inner.select(*_THREAD, F.col("value.label").alias("label"), "start_ns", "end_ns")
    return calls.unionByName(named).filter("thread_id IS NOT NULL")
