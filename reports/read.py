"""The queries behind a job page: one function per list, each with its bound."""

from __future__ import annotations

from collections.abc import Sequence

from tracelake.reports.format import nice_width
from tracelake.reports.metric_rows import (
    Annotation,
    AnnotationBin,
    Bin,
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
    RankSteps,
    Step,
    StepGroup,
    StepParts,
    StepsLeftOut,
)
from tracelake.reports.record_rows import DeviceModel, Quarantined, Source, SourceFlag, SourceGroup, Summary
from tracelake.reports.sql import Query, columns, fetch, literal, literals, names

MAX_ROWS = 64
"""Devices, nodes or ranks that a chart shows one by one."""
MAX_CELLS = 5_000
"""Cells of a heat strip: more would make a slow page."""
MAX_BUCKETS = 120
MAX_STEPS = 2_000
MAX_BINS = 40
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
_DEVICE_ORDER = "gpu_active_ratio NULLS LAST, rank NULLS LAST, device_id"


def devices(query: Query, here: str) -> tuple[Device, ...]:
    """The least active devices, in order of rank."""
    ledger = f"SELECT {names(Device, without=Device.JOINED)} FROM {Device.TABLE} WHERE {here} AND scope = 'job'"
    index = (
        f"SELECT device_id, min(device_index) AS device_index FROM normalized.devices WHERE {here} GROUP BY device_id"
    )
    return fetch(
        query,
        Device,
        f"WITH shown AS ({ledger} ORDER BY {_DEVICE_ORDER} LIMIT {MAX_ROWS}), named AS ({index}) "
        "SELECT shown.*, named.device_index FROM shown LEFT JOIN named ON shown.device_id = named.device_id "
        "ORDER BY rank NULLS LAST, node_id, device_index, shown.device_id",
    )


def findings(query: Query, here: str) -> tuple[Finding, ...]:
    """What is wrong, most device time at stake first."""
    sql = f"SELECT {names(Finding)} FROM {Finding.TABLE} WHERE {here} ORDER BY finding_number LIMIT {MAX_FINDINGS}"
    return fetch(query, Finding, sql)


def idle_causes(query: Query, here: str, shown: Sequence[Device]) -> tuple[IdleCause, ...]:
    """Idle time of the listed devices by cause."""
    devices_here = literals(d.device_id for d in shown if d.device_id is not None)
    sql = f"SELECT {names(IdleCause)} FROM {IdleCause.TABLE} WHERE {here} AND scope = 'job' AND device_id IN "
    return fetch(query, IdleCause, f"{sql}{devices_here} ORDER BY device_id, cause LIMIT {MAX_ROWS * MAX_CAUSES}")


def other_devices(query: Query, here: str, shown: int) -> OtherDevices | None:
    if shown < MAX_ROWS:
        return None
    sums = ", ".join(f"sum({c}) AS {c}" for c in ("window_ns", *_PARTS))
    rest = f"SELECT * FROM {Device.TABLE} WHERE {here} AND scope = 'job' ORDER BY {_DEVICE_ORDER} OFFSET {MAX_ROWS}"
    rows = fetch(query, OtherDevices, f"SELECT count(*) AS device_count, {sums} FROM ({rest})")
    return rows[0] if rows and rows[0].device_count else None


def device_models(query: Query, here: str) -> tuple[DeviceModel, ...]:
    what = names(DeviceModel, without=("device_count",))
    return fetch(
        query,
        DeviceModel,
        f"SELECT {what}, count(DISTINCT device_id) AS device_count FROM {DeviceModel.TABLE} WHERE {here} "
        f"GROUP BY {what} ORDER BY device_count DESC LIMIT {MAX_SMALL}",
    )


def cells(query: Query, here: str, summary: Summary, shown: Sequence[Device]) -> tuple[Cell, ...]:
    """Utilization of the listed devices and of as many nodes, in at most MAX_BUCKETS stretches each.

    Buckets are weighted by their length and by the share of them that was measured; a merged stretch keeps the true
    extent of its buckets, so where nothing needs merging the cells are the buckets.
    """
    if summary.started_ns is None or summary.ended_ns is None:
        return ()
    rows = max(1, min(MAX_ROWS, max(len(shown), summary.node_count)))
    stretch = max(1, -(-(summary.ended_ns - summary.started_ns) // min(MAX_BUCKETS, MAX_CELLS // rows)))
    devices_here = literals(d.device_id for d in shown if d.device_id is not None)
    nodes = (
        f"SELECT DISTINCT entity_id FROM aggregates.utilization WHERE {here} AND entity_kind = 'node' "
        f"ORDER BY entity_id LIMIT {MAX_ROWS}"
    )
    weight = "bucket_ns * coalesce(coverage_ratio, 1.0)"
    value = f"sum(value_ratio * {weight}) / nullif(sum(CASE WHEN value_ratio IS NOT NULL THEN {weight} END), 0)"
    return fetch(
        query,
        Cell,
        "SELECT entity_kind, entity_id, node_id, metric, min(bucket_start_ns) AS start_ns, "
        f"max(bucket_start_ns + bucket_ns) AS end_ns, {value} AS value_ratio FROM aggregates.utilization "
        f"WHERE {here} AND (entity_kind = 'device' AND entity_id IN {devices_here} "
        f"OR entity_kind = 'node' AND entity_id IN ({nodes})) "
        f"GROUP BY entity_kind, entity_id, node_id, metric, (bucket_start_ns - {summary.started_ns}) DIV {stretch} "
        "ORDER BY entity_kind, metric, node_id, entity_id, start_ns",
    )


def _slowest(here: str) -> str:
    """Steps that count, all but the cut ones, each on its slowest rank, as a query."""
    kept = ", ".join(columns(StepParts))
    return (
        "SELECT step_name, step_occurrence, max(duration_ns) AS duration_ns, "
        f"max_by(struct(step_index, rank, node_id, {kept}), duration_ns) AS worst "
        f"FROM aggregates.step_ledger WHERE {here} AND status <> 'cut' GROUP BY step_name, step_occurrence"
    )


def _nearest_rank(share: float) -> str:
    """A percentile that is one of the durations, as the aggregates have it."""
    return f"CAST(percentile_disc({share}) WITHIN GROUP (ORDER BY duration_ns) AS BIGINT)"


def step_groups(query: Query, here: str) -> tuple[StepGroup, ...]:
    """Steps by name, the one with the most time first: the page is about that one and mentions the others."""
    return fetch(
        query,
        StepGroup,
        "SELECT step_name, count(*) AS step_count, sum(duration_ns) AS duration_sum_ns, "
        f"min(duration_ns) AS duration_min_ns, {_nearest_rank(0.5)} AS duration_p50_ns, "
        f"{_nearest_rank(0.99)} AS duration_p99_ns, max(duration_ns) AS duration_max_ns "
        f"FROM ({_slowest(here)}) GROUP BY step_name ORDER BY duration_sum_ns DESC, step_name LIMIT {MAX_SMALL}",
    )


def steps(query: Query, here: str, group: StepGroup) -> tuple[Step, ...]:
    """Steps in time order; where there are more than MAX_STEPS, the slowest of each run of consecutive ones."""
    run = max(1, -(-group.step_count // MAX_STEPS))
    worst = ", ".join(f"w.worst.{c} AS {c}" for c in ("step_index", "rank", "node_id", *columns(StepParts)))
    return fetch(
        query,
        Step,
        f"SELECT step_count, w.step_occurrence, w.duration_ns, {worst} FROM (SELECT count(*) AS step_count, "
        "max_by(struct(step_occurrence, duration_ns, worst), duration_ns) AS w "
        f"FROM ({_slowest(here)}) WHERE step_name = {literal(group.step_name)} "
        f"GROUP BY step_occurrence DIV {run}) ORDER BY step_occurrence LIMIT {MAX_STEPS + 1}",
    )


def step_bins(query: Query, here: str, group: StepGroup) -> tuple[Bin, ...]:
    """Histogram over all steps of the group, in bins of a width from the 1-2-5 series.

    The width follows the 99th percentile; what lies far beyond it shares one last, wider bin.
    """
    width = nice_width(group.duration_p99_ns - group.duration_min_ns, MAX_BINS // 2)
    last = (group.duration_min_ns // width + MAX_BINS) * width
    low = f"least(duration_ns DIV {width} * {width}, {last})"
    high = (
        f"CASE WHEN low_ns < {last} THEN low_ns + {width} ELSE greatest(low_ns + {width}, {group.duration_max_ns}) END"
    )
    return fetch(
        query,
        Bin,
        f"SELECT low_ns, {high} AS high_ns, count(*) AS count FROM (SELECT {low} AS low_ns "
        f"FROM ({_slowest(here)}) WHERE step_name = {literal(group.step_name)}) "
        f"GROUP BY low_ns ORDER BY low_ns LIMIT {MAX_SMALL}",
    )


def rank_steps(query: Query, here: str, group: StepGroup) -> tuple[RankSteps, ...]:
    """Mean step of each rank, the slowest ranks where there are too many; the other_ns takes up the rounding."""
    parts = [c for c in columns(StepParts) if c != "other_ns"]
    means = ", ".join(f"sum({c}) DIV count(*) AS {c}" for c in (*parts, "duration_ns"))
    known = " + ".join(f"coalesce({c}, 0)" for c in parts)
    mean = (
        f"SELECT rank, min(node_id) AS node_id, min(source_id) AS source_id, count(*) AS step_count, {means}, "
        "count(other_ns) AS known_count FROM aggregates.step_ledger "
        f"WHERE {here} AND status = 'complete' AND step_name = {literal(group.step_name)} "
        "GROUP BY rank, CASE WHEN rank IS NULL THEN source_id END"
    )
    slowest = f"SELECT * FROM ({mean}) ORDER BY duration_ns DESC LIMIT {MAX_ROWS}"
    return fetch(
        query,
        RankSteps,
        f"SELECT *, CASE WHEN known_count > 0 THEN duration_ns - ({known}) END AS other_ns FROM ({slowest}) "
        "ORDER BY rank NULLS LAST, source_id",
    )


def steps_left_out(query: Query, here: str) -> tuple[StepsLeftOut, ...]:
    return fetch(
        query,
        StepsLeftOut,
        f"SELECT status, reason, count(*) AS step_count FROM {StepsLeftOut.TABLE} "
        f"WHERE {here} AND status <> 'complete' GROUP BY status, reason ORDER BY step_count DESC LIMIT {MAX_SMALL}",
    )


def kernels(query: Query, here: str) -> tuple[Kernel, ...]:
    return fetch(
        query,
        Kernel,
        f"SELECT {names(Kernel)} FROM {Kernel.TABLE} WHERE {here} "
        f"ORDER BY duration_sum_ns DESC, name LIMIT {MAX_KERNELS}",
    )


def other_kernels(query: Query, here: str) -> tuple[OtherKernels, ...]:
    rest = (
        f"SELECT kernel_class, kernel_count, duration_sum_ns FROM {Kernel.TABLE} WHERE {here} "
        f"ORDER BY duration_sum_ns DESC, name OFFSET {MAX_KERNELS}"
    )
    return fetch(
        query,
        OtherKernels,
        "SELECT kernel_class, count(*) AS name_count, sum(kernel_count) AS kernel_count, "
        f"sum(duration_sum_ns) AS duration_sum_ns FROM ({rest}) GROUP BY kernel_class ORDER BY duration_sum_ns DESC",
    )


def precisions(query: Query, here: str) -> tuple[Precision, ...]:
    sql = f"SELECT {names(Precision)} FROM {Precision.TABLE} WHERE {here} ORDER BY duration_sum_ns DESC LIMIT 2000"
    return fetch(query, Precision, sql)


def launches(query: Query, here: str) -> tuple[Launch, ...]:
    sql = f"SELECT {names(Launch)} FROM {Launch.TABLE} WHERE {here} ORDER BY duration_sum_ns DESC LIMIT {MAX_SMALL}"
    return fetch(query, Launch, sql)


def memops(query: Query, here: str) -> tuple[Memop, ...]:
    sql = f"SELECT {names(Memop)} FROM {Memop.TABLE} WHERE {here} ORDER BY duration_sum_ns DESC LIMIT {MAX_SMALL}"
    return fetch(query, Memop, sql)


def named_ranges(query: Query, here: str) -> tuple[Annotation, ...]:
    """Host annotations with the most time. A tool's copies of them on devices would count everything twice."""
    return fetch(
        query,
        Annotation,
        f"SELECT {names(Annotation)} FROM {Annotation.TABLE} WHERE {here} AND side = 'host' "
        f"ORDER BY duration_sum_ns DESC NULLS LAST, name LIMIT {MAX_ANNOTATIONS}",
    )


def annotation_bins(query: Query, here: str, shown: Sequence[Annotation]) -> tuple[AnnotationBin, ...]:
    if not shown:
        return ()
    return fetch(
        query,
        AnnotationBin,
        f"SELECT {names(AnnotationBin)} FROM {AnnotationBin.TABLE} WHERE {here} "
        f"AND name IN {literals(a.name for a in shown)} ORDER BY name, low_ns LIMIT {MAX_ANNOTATION_BINS}",
    )


def source_groups(query: Query, here: str) -> tuple[SourceGroup, ...]:
    key = "status, status_reason, gpu_reason"
    sums = ", ".join(f"sum({c}) AS {c}" for c in columns(SourceGroup) if c.startswith("rows_"))
    return fetch(
        query,
        SourceGroup,
        f"SELECT {key}, count(*) AS source_count, {sums} FROM {SourceGroup.TABLE} WHERE {here} "
        f"GROUP BY {key} ORDER BY source_count DESC, {key} LIMIT {MAX_SMALL}",
    )


def troubled_sources(query: Query, here: str) -> tuple[Source, ...]:
    return fetch(
        query,
        Source,
        f"SELECT {names(Source)} FROM {Source.TABLE} WHERE {here} AND (status <> 'complete' OR gpu_reason IS NOT NULL) "
        f"ORDER BY rank NULLS LAST, node_id, file LIMIT {MAX_SOURCES}",
    )


def source_flags(query: Query, here: str) -> tuple[SourceFlag, ...]:
    return fetch(
        query,
        SourceFlag,
        f"SELECT flag, count(*) AS source_count FROM (SELECT explode(flags) AS flag FROM {Source.TABLE} WHERE {here}) "
        f"GROUP BY flag ORDER BY source_count DESC, flag LIMIT {MAX_SMALL}",
    )


def quarantined(query: Query, job_id: str) -> tuple[Quarantined, ...]:
    return fetch(
        query,
        Quarantined,
        f"SELECT {names(Quarantined)} FROM {Quarantined.TABLE} WHERE job_id = {literal(job_id)} "
        f"ORDER BY file, offset_bytes, row_index LIMIT {MAX_QUARANTINED}",
    )
