"""The queries behind a job page: one function per list, each with its bound.

`here` is the condition that chooses jobs and attempts, of tables or views with bare names; lists come by job.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracelake.reports.metric_rows import (
    Annotation,
    AnnotationBin,
    Cell,
    Device,
    Finding,
    IdleCause,
    Kernel,
    Launch,
    Memop,
    OtherDevices,
    OtherKernels,
    Precision,
)
from tracelake.reports.record_rows import DeviceModel, Quarantined, Source, SourceFlag, SourceGroup, Summary
from tracelake.reports.sql import ByJob, Query, among, beyond, by_job, columns, first, given, names, rows_of, table

MAX_ROWS = 64
"""Devices, nodes or ranks that a chart shows one by one."""
MAX_CELLS = 5_000
"""Cells of a heat strip: more would make a slow page."""
MAX_METRICS = 20
MAX_PRECISIONS = 2_000
MAX_BUCKETS = 120
MAX_KERNELS = 100
MAX_ANNOTATIONS = 100
MAX_ANNOTATION_BINS = 10_000
MAX_QUARANTINED = 50
MAX_SOURCES = 50
MAX_FINDINGS = 20
MAX_CAUSES = 20
MAX_SMALL = 500
"""Lists that are short by nature are cut here all the same."""

_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns", "sync_idle_ns")
_LONGEST = "duration_sum_ns DESC, name"
_DEVICE_ORDER = "gpu_active_ratio NULLS LAST, rank NULLS LAST, device_id"


def devices(query: Query, here: str) -> ByJob[Device]:
    """The least active devices, in order of rank."""
    listed = names(Device, "shown.", without=Device.JOINED)
    index = (
        f"SELECT job_id, device_id, min(device_index) AS device_index FROM devices WHERE {here} "
        "GROUP BY job_id, device_id"
    )
    return by_job(
        query,
        Device,
        f"SELECT shown.job_id, {listed}, named.device_index FROM ({first(_ledgers(here), _DEVICE_ORDER, MAX_ROWS)}) "
        f"shown LEFT JOIN ({index}) named ON named.job_id = shown.job_id AND named.device_id = shown.device_id",
        "rank NULLS LAST, node_id, device_index, device_id",
        MAX_ROWS,
    )


def _ledgers(here: str) -> str:
    listed = names(Device, without=Device.JOINED)
    return f"SELECT job_id, {listed} FROM {table(Device)} WHERE {here} AND scope = 'job'"


def findings(query: Query, here: str) -> ByJob[Finding]:
    """What is wrong, most device time at stake first."""
    return by_job(query, Finding, rows_of(Finding, here), "finding_number", MAX_FINDINGS)


def _among_devices(column: str, shown: ByJob[Device]) -> str:
    return among(("job_id", column), ((job_id, d.device_id) for job_id, its in shown.items() for d in its))


def idle_causes(query: Query, here: str, shown: ByJob[Device]) -> ByJob[IdleCause]:
    """Idle time of the listed devices by cause."""
    which = f"{here} AND scope = 'job' AND {_among_devices('device_id', shown)}"
    return by_job(query, IdleCause, rows_of(IdleCause, which), "device_id, cause", MAX_ROWS * MAX_CAUSES)


def other_devices(query: Query, here: str, shown: ByJob[Device]) -> ByJob[OtherDevices]:
    """What the others have in all, where there are any."""
    if all(len(its) < MAX_ROWS for its in shown.values()):
        return {}
    sums = ", ".join(f"sum({c}) AS {c}" for c in ("window_ns", *_PARTS))
    rest = beyond(_ledgers(here), _DEVICE_ORDER, MAX_ROWS)
    sql = f"SELECT job_id, count(*) AS device_count, {sums} FROM ({rest}) GROUP BY job_id"
    return by_job(query, OtherDevices, sql, "job_id", 1)


def device_models(query: Query, here: str) -> ByJob[DeviceModel]:
    what = names(DeviceModel, without=("device_count",))
    return by_job(
        query,
        DeviceModel,
        f"SELECT job_id, {what}, count(DISTINCT device_id) AS device_count FROM {table(DeviceModel)} WHERE {here} "
        f"GROUP BY job_id, {what}",
        f"device_count DESC, {what}",
        MAX_SMALL,
    )


def cells(query: Query, here: str, summaries: Mapping[str, Summary], shown: ByJob[Device]) -> ByJob[Cell]:
    """Utilization of the listed devices and of as many nodes, in at most MAX_BUCKETS stretches each.

    Buckets are weighted by their length and by the share of them that was measured; a merged stretch keeps the true
    extent of its buckets, so where nothing needs merging the cells are the buckets.
    """
    stretches = [
        (
            job_id,
            summary.started_ns,
            _stretch_ns(summary.ended_ns - summary.started_ns, max(len(its), summary.node_count)),
        )
        for job_id, summary in summaries.items()
        if summary.started_ns is not None and summary.ended_ns is not None
        for its in [shown.get(job_id, ())]
    ]
    if not stretches:
        return {}
    nodes = first(
        f"SELECT DISTINCT job_id, entity_id FROM utilization WHERE {here} AND entity_kind = 'node'",
        "entity_id",
        MAX_ROWS,
    )
    weight = "bucket_ns * coalesce(coverage_ratio, 1.0)"
    value = f"sum(value_ratio * {weight}) / nullif(sum(CASE WHEN value_ratio IS NOT NULL THEN {weight} END), 0)"
    return by_job(
        query,
        Cell,
        "SELECT job_id, entity_kind, entity_id, node_id, metric, min(bucket_start_ns) AS start_ns, "
        f"max(bucket_start_ns + bucket_ns) AS end_ns, {value} AS value_ratio FROM utilization "
        f"JOIN ({given(('job_id', 'started_ns', 'stretch_ns'), stretches)}) USING (job_id) "
        f"WHERE {here} AND (entity_kind = 'device' AND {_among_devices('entity_id', shown)} "
        f"OR entity_kind = 'node' AND (job_id, entity_id) IN ({nodes})) "
        "GROUP BY job_id, entity_kind, entity_id, node_id, metric, (bucket_start_ns - started_ns) DIV stretch_ns",
        "entity_kind, metric, node_id, entity_id, start_ns",
        MAX_CELLS * MAX_METRICS,
    )


def _stretch_ns(length_ns: int, shown: int) -> int:
    return max(1, -(-length_ns // min(MAX_BUCKETS, MAX_CELLS // max(1, min(MAX_ROWS, shown)))))


def kernels(query: Query, here: str) -> ByJob[Kernel]:
    return by_job(query, Kernel, rows_of(Kernel, here), _LONGEST, MAX_KERNELS)


def other_kernels(query: Query, here: str) -> ByJob[OtherKernels]:
    return by_job(
        query,
        OtherKernels,
        "SELECT job_id, kernel_class, count(*) AS name_count, sum(kernel_count) AS kernel_count, "
        f"sum(duration_sum_ns) AS duration_sum_ns FROM ({beyond(rows_of(Kernel, here), _LONGEST, MAX_KERNELS)}) "
        "GROUP BY job_id, kernel_class",
        "duration_sum_ns DESC, kernel_class",
        MAX_SMALL,
    )


def precisions(query: Query, here: str) -> ByJob[Precision]:
    order = "duration_sum_ns DESC, kernel_class, precision, precision_source, is_tensor_core"
    return by_job(query, Precision, rows_of(Precision, here), order, MAX_PRECISIONS)


def launches(query: Query, here: str) -> ByJob[Launch]:
    return by_job(query, Launch, rows_of(Launch, here), "duration_sum_ns DESC, api_name", MAX_SMALL)


def memops(query: Query, here: str) -> ByJob[Memop]:
    order = "duration_sum_ns DESC, kind, direction, memory_kind"
    return by_job(query, Memop, rows_of(Memop, here), order, MAX_SMALL)


def named_ranges(query: Query, here: str) -> ByJob[Annotation]:
    """Host annotations with the most time. A tool's copies of them on devices would count everything twice."""
    host = rows_of(Annotation, f"{here} AND side = 'host'")
    return by_job(query, Annotation, host, "duration_sum_ns DESC NULLS LAST, name", MAX_ANNOTATIONS)


def annotation_bins(query: Query, here: str, shown: ByJob[Annotation]) -> ByJob[AnnotationBin]:
    listed = among(("job_id", "name"), ((job_id, a.name) for job_id, its in shown.items() for a in its))
    bins = rows_of(AnnotationBin, f"{here} AND {listed}")
    return by_job(query, AnnotationBin, bins, "name, low_ns", MAX_ANNOTATION_BINS)


def source_groups(query: Query, here: str) -> ByJob[SourceGroup]:
    key = "status, status_reason, gpu_reason"
    sums = ", ".join(f"sum({c}) AS {c}" for c in columns(SourceGroup) if c.startswith("rows_"))
    return by_job(
        query,
        SourceGroup,
        f"SELECT job_id, {key}, count(*) AS source_count, {sums} FROM {table(SourceGroup)} WHERE {here} "
        f"GROUP BY job_id, {key}",
        f"source_count DESC, {key}",
        MAX_SMALL,
    )


def troubled_sources(query: Query, here: str) -> ByJob[Source]:
    troubled = rows_of(Source, f"{here} AND (status <> 'complete' OR gpu_reason IS NOT NULL)")
    return by_job(query, Source, troubled, "rank NULLS LAST, node_id, file", MAX_SOURCES)


def source_flags(query: Query, here: str) -> ByJob[SourceFlag]:
    return by_job(
        query,
        SourceFlag,
        "SELECT job_id, flag, count(*) AS source_count FROM "
        f"(SELECT job_id, explode(flags) AS flag FROM {table(Source)} WHERE {here}) GROUP BY job_id, flag",
        "source_count DESC, flag",
        MAX_SMALL,
    )


def quarantined(query: Query, mine: str) -> ByJob[Quarantined]:
    return by_job(
        query, Quarantined, rows_of(Quarantined, mine), "file, offset_bytes, row_index, reason", MAX_QUARANTINED
    )
