"""The queries behind what changed: the comparable run before, and the kernels whose time per step moved."""

from __future__ import annotations

from tracelake.reports.change_rows import KernelChange, RunBefore
from tracelake.reports.record_rows import Job, Summary
from tracelake.reports.sql import Query, fetch, literal, names

MAX_MOVED = 8


def run_before(query: Query, job: Job) -> RunBefore | None:
    """The last job before of the same project, family, machine type and world size; None where families are unknown."""
    if job.family is None or job.created_ns is None:
        return None
    alike = " AND ".join(f"j.`{c}` <=> {_value(getattr(job, c))}" for c in ("project", "instance_type", "world_size"))
    own = ("job_id", "created_ns", "hyperparameters")
    figures = names(RunBefore, "s.", without=own)
    rows = fetch(
        query,
        RunBefore,
        f"SELECT {', '.join(f'j.{c}' for c in own)}, {figures} FROM normalized.jobs j JOIN aggregates.job_summary s "
        f"ON s.job_id = j.job_id WHERE j.family = {literal(job.family)} AND {alike} "
        f"AND j.created_ns < {job.created_ns} AND j.job_id <> {literal(job.job_id)}"
        " ORDER BY j.created_ns DESC, s.attempt DESC LIMIT 1",
    )
    return rows[0] if rows else None


def _value(value: str | int | None) -> str:
    return "NULL" if value is None else literal(value) if isinstance(value, str) else str(int(value))


def moved_kernels(query: Query, job: Job, summary: Summary, before: RunBefore) -> tuple[KernelChange, ...]:
    """Kernels whose time per step and device changed most; none where steps are not known on both sides."""
    if not summary.step_count or not before.step_count or not summary.device_count:
        return ()
    now = _per_step(job.job_id, summary.attempt, summary.step_count)
    then = _per_step(before.job_id, before.attempt, before.step_count)
    return fetch(
        query,
        KernelChange,
        "SELECT coalesce(now.name, then.name) AS name, coalesce(now.short_name, then.short_name) AS short_name, "
        "coalesce(then.ns, 0D) AS before_ns, coalesce(now.ns, 0D) AS now_ns "
        f"FROM ({now}) now FULL OUTER JOIN ({then}) then ON now.name = then.name "
        f"ORDER BY abs(coalesce(now.ns, 0D) - coalesce(then.ns, 0D)) DESC, name LIMIT {MAX_MOVED}",
    )


def _per_step(job_id: str, attempt: int, steps: int) -> str:
    """Time of each kernel per step and device that ran it."""
    return (
        f"SELECT name, short_name, duration_sum_ns / (greatest(device_count, 1) * {steps}D) AS ns "
        f"FROM aggregates.kernel_stats WHERE job_id = {literal(job_id)} AND attempt = {attempt}"
    )
