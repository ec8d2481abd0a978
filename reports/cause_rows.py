"""Rows of causes on a job page: unusual steps, collectives, ranks, what could be, clocks, samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class OutlierStep:
    """A step that took much longer or shorter than usual."""

    TABLE: ClassVar[str] = "aggregates.outlier_steps"
    step_name: str
    step_index: int | None
    step_occurrence: int
    duration_ns: int
    score: float | None
    kind: str
    step_group: str
    excess_ns: int
    cause: str | None
    cause_excess_ns: int | None
    cause_ratio: float | None
    guilty_rank: int | None
    guilty_node_id: str | None
    confidence: float | None
    evidence: list[str]


@dataclass(frozen=True, slots=True)
class CollectiveKind:
    """All collectives of one operation."""

    operation: str
    collective_count: int
    reliable_count: int
    transfer_sum_ns: int | None
    wait_sum_ns: int | None
    bus_bandwidth_bytes_per_s: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Collective:
    """One of the collectives in which ranks waited longest."""

    TABLE: ClassVar[str] = "aggregates.collective_matches"
    match_group: str
    match_number: int
    operation: str
    transfer_ns: int
    wait_sum_ns: int
    wait_max_ns: int
    last_rank: int
    skew_reason: str | None


@dataclass(frozen=True, slots=True)
class CollectiveWait:
    """How long a rank waited for the last one in such a collective."""

    TABLE: ClassVar[str] = "aggregates.collective_waits"
    match_group: str
    match_number: int
    rank: int
    wait_ns: int


@dataclass(frozen=True, slots=True)
class RankStat:
    """A rank's own work over all steps, beside its peers'."""

    TABLE: ClassVar[str] = "aggregates.rank_stats"
    rank: int
    node_id: str | None
    step_count: int
    own_work_median_ns: int
    excess_ns: int | None
    slowdown_ratio: float | None
    cause: str | None
    is_slow: bool | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class RankExcess:
    """A rank's largest excess over its peers in a run of consecutive steps, relative to their own work."""

    rank: int
    first_step: int
    step_count: int
    excess_ratio: float


@dataclass(frozen=True, slots=True)
class Straggler:
    TABLE: ClassVar[str] = "aggregates.stragglers"
    rank: int
    node_id: str | None
    verdict: str
    slowdown_ratio: float
    excess_ns: int
    cost_sum_ns: int
    step_count: int
    cause: str | None
    cause_excess_ns: int | None


@dataclass(frozen=True, slots=True)
class PathShare:
    """How long the critical path of the steps lies on a rank, and with what; without a rank, why there is none."""

    rank: int | None
    step_count: int
    duration_ns: int | None
    path_ns: int | None
    """That of all ranks."""
    compute_ns: int | None
    exposed_comm_ns: int | None
    exposed_mem_ns: int | None
    runtime_ns: int | None
    data_loading_ns: int | None
    host_work_ns: int | None
    other_ns: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What the steps would take if something were otherwise, by a model."""

    TABLE: ClassVar[str] = "aggregates.what_if"
    scenario: str
    subject: str
    step_count: int
    baseline_ns: int
    predicted_ns: int
    saved_ratio: float
    assumption: str


@dataclass(frozen=True, slots=True)
class Clocks:
    """Windows whose clocks were aligned in one way, or not, for one reason."""

    method: str
    reason: str | None
    window_count: int
    offset_max_ns: int | None
    residual_max_ns: int | None


@dataclass(frozen=True, slots=True)
class DeviceSamples:
    """What samples say of a device."""

    TABLE: ClassVar[str] = "aggregates.device_samples"
    device_id: str
    node_id: str | None
    rank: int | None
    coverage_ratio: float
    power_mean_watts: float | None
    power_max_watts: float | None
    clock_median_hz: float | None
    low_clock_ratio: float | None
    throttled_ratio: float | None
    power_capped_ratio: float | None
    memory_total_bytes: int | None
    memory_max_bytes: int | None
    memory_growth_bytes: int | None
    is_memory_leak: bool | None
    memory_reason: str | None
