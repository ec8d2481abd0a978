"""The queries behind what changed: the comparable runs before, and the kernels whose time per step moved."""

from __future__ import annotations

from collections.abc import Iterable

from tracelake.reports.change_rows import KernelChange, RunBefore, Verdict
from tracelake.reports.record_rows import Job, Summary
from tracelake.reports.sql import ByJob, Query, by_job, given, names, table
from tracelake.schemas.catalog import views

MAX_MOVED = 8


def runs_before(query: Query, mine: str) -> ByJob[RunBefore]:
    """Each job's last before of the same project, family, machine type and world size; none where that is unknown."""
    own = ("job_id", "created_ns", "hyperparameters")
    alike = " AND ".join(f"j.`{c}` <=> m.`{c}`" for c in ("project", "instance_type", "world_size"))
    return by_job(
        query,
        RunBefore,
        f"SELECT m.job_id AS of_job_id, {', '.join(f'j.{c}' for c in own)}, {names(RunBefore, 's.', without=own)} "
        f"FROM (SELECT * FROM {table(Job)} WHERE {mine}) m JOIN {table(Job)} j ON j.family = m.family AND {alike} "
        f"AND j.created_ns < m.created_ns AND j.job_id <> m.job_id JOIN {table(Summary)} s ON s.job_id = j.job_id",
        "created_ns DESC, attempt DESC",
        1,
        job="of_job_id",
    )


def verdicts(query: Query, mine: str) -> ByJob[Verdict]:
    """How jobs compare with their families. Needs all jobs: the run after one confirms or refutes what it shows."""
    judged = views()["v_regressions"].sql
    rows = f"SELECT job_id, {names(Verdict)} FROM ({judged}) WHERE {mine}"
    return by_job(query, Verdict, rows, "job_id", 1)


def moved_kernels(query: Query, changes: Iterable[tuple[Job, Summary, RunBefore]]) -> ByJob[KernelChange]:
    """Kernels whose time per step and device changed most; none where steps are not known on both sides."""
    pairs = [
        (job.job_id, now.attempt, now.step_count, then.job_id, then.attempt, then.step_count)
        for job, now, then in changes
        if now.step_count and then.step_count and now.device_count
    ]
    if not pairs:
        return {}
    now = _per_step([(pair[0], *pair[:3]) for pair in pairs])
    then = _per_step([(pair[0], *pair[3:]) for pair in pairs])
    return by_job(
        query,
        KernelChange,
        "SELECT job_id, name, coalesce(now.short_name, then.short_name) AS short_name, "
        "coalesce(then.ns, 0D) AS before_ns, coalesce(now.ns, 0D) AS now_ns "
        f"FROM ({now}) now FULL OUTER JOIN ({then}) then USING (job_id, name)",
        "abs(now_ns - before_ns) DESC, name",
        MAX_MOVED,
    )


def _per_step(runs: Iterable[tuple[str, str, int, int]]) -> str:
    """Time of each kernel per step and device that ran it; a run is the page's job, its own, attempt and steps."""
    these = given(("for_job_id", "job_id", "attempt", "step_count"), runs)
    return (
        "SELECT r.for_job_id AS job_id, k.name, k.short_name, "
        "k.duration_sum_ns / (greatest(k.device_count, 1) * CAST(r.step_count AS DOUBLE)) AS ns "
        f"FROM kernel_stats k JOIN ({these}) r ON r.job_id = k.job_id AND r.attempt = k.attempt"
    )
