"""Rows about a job and its recording. The field names are the names of the columns that the page reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Job:
    TABLE: ClassVar[str] = "normalized.jobs"
    job_id: str
    state: str
    created_ns: int | None
    ended_ns: int | None
    exit_code: int | None
    attempt_count: int
    project: str | None
    user: str | None
    family: str | None
    framework: str | None
    world_size: int | None
    instance_type: str | None
    cloud_account: str | None
    cloud_region: str | None
    instance_ids: list[str]
    nodes: list[str]
    cloud_job_id: str | None
    format: str
    hyperparameters: dict[str, str]
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class Summary:
    TABLE: ClassVar[str] = "aggregates.job_summary"
    attempt: int
    status: str
    reasons: list[str]
    started_ns: int | None
    ended_ns: int | None
    source_count: int
    node_count: int
    device_count: int
    ranks_seen_count: int
    ranks_expected_count: int | None
    missing_ranks: list[int]
    conflicting_ranks: list[int]
    device_time_ns: int | None
    withheld_ns: int | None
    compute_ns: int | None
    exposed_comm_ns: int | None
    exposed_mem_ns: int | None
    idle_ns: int | None
    sync_idle_ns: int | None
    gpu_active_ratio: float | None
    kernel_busy_ratio: float | None
    comm_overlap_ratio: float | None
    launch_coverage_ratio: float | None
    tensor_core_ratio: float | None
    precision_known_ratio: float | None
    achieved_flops_per_s: float | None
    peak_flops_per_s: float | None
    mfu_ratio: float | None
    bubble_ratio: float | None
    cpu_util_ratio: float | None
    cpu_active_ratio: float | None
    gpu_util_sampled_ratio: float | None
    gpu_util_sampled_coverage_ratio: float | None
    step_count: int
    uncovered_step_count: int
    step_median_ns: int | None
    step_max_ns: int | None
    is_step_inferred: bool | None
    step_period_launch_count: int | None
    step_agreement_ratio: float | None
    no_steps_reason: str | None
    outlier_steps_reason: str | None
    straggler_count: int | None
    stragglers_reason: str | None
    kernel_count: int
    launch_count: int
    memop_count: int
    kernel_sum_ns: int
    rows_read_count: int
    rows_quarantined_count: int
    metric_version: int


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """How many devices of a product the job used."""

    TABLE: ClassVar[str] = "normalized.devices"
    name: str | None
    memory_bytes: int | None
    sm_count: int | None
    compute_capability: str | None
    device_count: int


@dataclass(frozen=True, slots=True)
class SourceGroup:
    """Windows that share a status and its reasons, with every row that was read accounted for."""

    TABLE: ClassVar[str] = "normalized.sources"
    status: str
    status_reason: str | None
    gpu_reason: str | None
    source_count: int
    rows_read: int
    rows_stored: int
    rows_quarantined: int
    rows_deduplicated: int
    rows_skipped: int


@dataclass(frozen=True, slots=True)
class Source:
    """A window that is not complete, or whose device numbers are withheld."""

    TABLE: ClassVar[str] = "normalized.sources"
    rank: int | None
    node_id: str | None
    status: str
    status_reason: str | None
    gpu_reason: str | None
    launch_coverage_ratio: float | None
    file: str | None
    capture_reason: str | None = None


@dataclass(frozen=True, slots=True)
class SourceFlag:
    """How many windows carry a reason code."""

    flag: str
    source_count: int


@dataclass(frozen=True, slots=True)
class Publication:
    """Whether the job may be published, and its checks by outcome."""

    TABLE: ClassVar[str] = "operations.publications"
    is_publishable: bool
    reasons: list[str]
    passed_count: int
    failed_count: int
    warned_count: int
    not_evaluated_count: int
    error_count: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What one check of a table came to, for the job or for a window that breaks it."""

    TABLE: ClassVar[str] = "operations.checks"
    table_name: str
    check_id: str
    source_id: str | None
    kind: str
    severity: str
    outcome: str
    measured: float | None
    limit_min: float | None
    limit_max: float | None
    row_count: int
    failing_count: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class SetAside:
    """Rows in quarantine that share a kind, a reason and its remedy; rows of a damaged stretch may be unknown."""

    TABLE: ClassVar[str] = "operations.quarantine"
    kind: str
    reason: str
    remedy: str
    entry_count: int
    rows_count: int | None


@dataclass(frozen=True, slots=True)
class Quarantined:
    TABLE: ClassVar[str] = "operations.quarantine"
    kind: str
    file: str
    offset_bytes: int | None
    length_bytes: int | None
    row_index: int | None
    rows_count: int | None
    reason: str
    remedy: str
    excerpt: str
