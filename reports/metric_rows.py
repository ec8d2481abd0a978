"""Rows of the metrics on a job page. The field names are the names of the columns that the page reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Device:
    """A device's ledger over its windows, with what the device is."""

    TABLE: ClassVar[str] = "aggregates.device_ledger"
    JOINED: ClassVar[tuple[str, ...]] = ("device_index",)
    device_id: str | None
    node_id: str | None
    rank: int | None
    device_index: int | None
    window_ns: int
    compute_ns: int | None
    exposed_comm_ns: int | None
    exposed_mem_ns: int | None
    idle_ns: int | None
    sync_idle_ns: int | None
    gpu_active_ratio: float | None
    kernel_busy_ratio: float | None
    comm_overlap_ratio: float | None
    launch_coverage_ratio: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, in words, with the rows that prove it."""

    TABLE: ClassVar[str] = "aggregates.findings"
    finding_number: int
    rule: str
    cause: str
    severity: str
    title: str
    remedy: str
    lost_ns: int | None
    lost_ratio: float | None
    lost_cost: float | None
    confidence: float | None
    evidence: list[str]


@dataclass(frozen=True, slots=True)
class IdleCause:
    """Idle time of a device over its windows, by what it waited for."""

    TABLE: ClassVar[str] = "aggregates.idle_causes"
    device_id: str
    cause: str
    idle_ns: int


@dataclass(frozen=True, slots=True)
class OtherDevices:
    """The devices that are not listed one by one."""

    device_count: int
    window_ns: int | None
    compute_ns: int | None
    exposed_comm_ns: int | None
    exposed_mem_ns: int | None
    idle_ns: int | None
    sync_idle_ns: int | None


@dataclass(frozen=True, slots=True)
class Cell:
    """Utilization of one device or node in one stretch of time, merged from the buckets that lie in it."""

    entity_kind: str
    entity_id: str
    node_id: str | None
    metric: str
    start_ns: int
    end_ns: int
    value_ratio: float | None


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Steps of one name, on the slowest rank of each."""

    step_name: str
    step_count: int
    duration_sum_ns: int
    duration_min_ns: int
    duration_p50_ns: int
    duration_p99_ns: int
    duration_max_ns: int


@dataclass(frozen=True, slots=True)
class StepParts:
    """The step ledger's classes; NULL where device numbers are withheld."""

    compute_ns: int | None
    exposed_comm_ns: int | None
    memcpy_ns: int | None
    memset_ns: int | None
    runtime_ns: int | None
    data_loading_ns: int | None
    host_work_ns: int | None
    other_ns: int | None


@dataclass(frozen=True, slots=True)
class Step(StepParts):
    """The slowest rank of one step, or of the slowest of a run of consecutive steps."""

    step_occurrence: int
    step_index: int | None
    step_count: int
    rank: int | None
    node_id: str | None
    duration_ns: int


@dataclass(frozen=True, slots=True)
class RankSteps(StepParts):
    """Mean step of one rank."""

    rank: int | None
    node_id: str | None
    source_id: str
    step_count: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class StepsLeftOut:
    """Steps that do not count in statistics, and why."""

    TABLE: ClassVar[str] = "aggregates.step_ledger"
    status: str
    reason: str | None
    step_count: int


@dataclass(frozen=True, slots=True)
class Bin:
    """A bin of a histogram: durations in [low_ns, high_ns)."""

    low_ns: int
    high_ns: int
    count: int


@dataclass(frozen=True, slots=True)
class Kernel:
    TABLE: ClassVar[str] = "aggregates.kernel_stats"
    name: str
    short_name: str
    kernel_class: str
    precision: str
    precision_source: str
    is_tensor_core: bool
    precision_count: int
    kernel_count: int
    device_count: int
    duration_sum_ns: int
    duration_mean_ns: float
    duration_p50_ns: int
    duration_p99_ns: int
    duration_max_ns: int


@dataclass(frozen=True, slots=True)
class OtherKernels:
    """The kernels of a class that are not listed one by one."""

    kernel_class: str
    name_count: int
    kernel_count: int
    duration_sum_ns: int


@dataclass(frozen=True, slots=True)
class Precision:
    TABLE: ClassVar[str] = "aggregates.precision_stats"
    kernel_class: str
    precision: str
    precision_source: str
    is_tensor_core: bool
    kernel_count: int
    duration_sum_ns: int


@dataclass(frozen=True, slots=True)
class Launch:
    TABLE: ClassVar[str] = "aggregates.launch_stats"
    api_name: str
    launch_count: int
    kernel_count: int
    producing_launch_count: int
    covered_launch_count: int
    short_kernel_count: int
    slow_launch_count: int
    long_delay_count: int
    launch_delay_count: int
    launch_delay_p50_ns: int | None
    launch_delay_p99_ns: int | None
    launch_delay_max_ns: int | None
    before_launch_count: int
    duration_sum_ns: int
    duration_mean_ns: float
    duration_p99_ns: int


@dataclass(frozen=True, slots=True)
class Memop:
    TABLE: ClassVar[str] = "aggregates.memop_stats"
    kind: str
    direction: str | None
    memory_kind: str | None
    memop_count: int
    sized_count: int
    sum_bytes: int | None
    p50_bytes: int | None
    max_bytes: int | None
    sized_duration_sum_ns: int
    duration_sum_ns: int
    duration_mean_ns: float
    duration_p99_ns: int


@dataclass(frozen=True, slots=True)
class Annotation:
    TABLE: ClassVar[str] = "aggregates.annotation_stats"
    name: str
    side: str
    is_step: bool
    annotation_count: int
    open_count: int
    gpu_exclusive_ns: int | None
    gpu_time_ns: int | None
    duration_sum_ns: int | None
    duration_mean_ns: float | None
    duration_min_ns: int | None
    duration_p50_ns: int | None
    duration_p99_ns: int | None
    duration_max_ns: int | None


@dataclass(frozen=True, slots=True)
class AnnotationBin:
    TABLE: ClassVar[str] = "aggregates.annotation_histogram"
    name: str
    low_ns: int
    high_ns: int
    annotation_count: int
