"""Rows of the runs before, on a job page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunBefore:
    """The latest attempt of the comparable job before this one."""

    job_id: str
    attempt: int
    created_ns: int
    hyperparameters: dict[str, str]
    step_count: int
    step_median_ns: int | None
    device_time_ns: int | None
    compute_ns: int | None
    exposed_comm_ns: int | None
    exposed_mem_ns: int | None
    idle_ns: int | None
    gpu_active_ratio: float | None
    tensor_core_ratio: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A job's median step time against the comparable runs before it."""

    verdict: str
    compared_count: int
    usual_ms: float | None
    tolerance_ms: float | None
    change_percent: float | None


@dataclass(frozen=True, slots=True)
class KernelChange:
    """Time of a kernel per step, then and now; 0 where it did not run."""

    name: str
    short_name: str
    before_ns: float
    now_ns: float
