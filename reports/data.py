"""What a job page needs, read from small aggregate rows. Every list is bounded, whatever the size of the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracelake.reports import read, read_causes, read_changes, read_checks
from tracelake.reports.cause_rows import (
    Clocks,
    Collective,
    CollectiveKind,
    CollectiveWait,
    DeviceSamples,
    OutlierStep,
    RankExcess,
    RankStat,
    Straggler,
    WhatIf,
)
from tracelake.reports.change_rows import KernelChange, RunBefore
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
    StepsLeftOut,
)
from tracelake.reports.record_rows import (
    DeviceModel,
    Job,
    Publication,
    Quarantined,
    Source,
    SourceFlag,
    SourceGroup,
    Summary,
)
from tracelake.reports.sql import Query, fetch, literal, names

__all__ = ["JobData", "Query", "UnknownJobError", "job_data"]


class UnknownJobError(LookupError):
    """The lake has no such job or attempt."""


@dataclass(frozen=True, slots=True)
class Causes:
    """What explains the numbers, as plain rows; every list may be empty."""

    outliers: tuple[OutlierStep, ...] = ()
    collective_kinds: tuple[CollectiveKind, ...] = ()
    collectives: tuple[Collective, ...] = ()
    collective_waits: tuple[CollectiveWait, ...] = ()
    rank_stats: tuple[RankStat, ...] = ()
    rank_excess: tuple[RankExcess, ...] = ()
    stragglers: tuple[Straggler, ...] = ()
    what_if: tuple[WhatIf, ...] = ()
    clocks: tuple[Clocks, ...] = ()
    device_samples: tuple[DeviceSamples, ...] = ()


@dataclass(frozen=True, slots=True)
class JobData:
    """Everything on a job page, as plain rows."""

    job: Job
    summary: Summary
    findings: tuple[Finding, ...]
    devices: tuple[Device, ...]
    other_devices: OtherDevices | None
    idle_causes: tuple[IdleCause, ...]
    device_models: tuple[DeviceModel, ...]
    cells: tuple[Cell, ...]
    step_groups: tuple[StepGroup, ...]
    steps: tuple[Step, ...]
    step_bins: tuple[Bin, ...]
    rank_steps: tuple[RankSteps, ...]
    steps_left_out: tuple[StepsLeftOut, ...]
    kernels: tuple[Kernel, ...]
    other_kernels: tuple[OtherKernels, ...]
    precisions: tuple[Precision, ...]
    launches: tuple[Launch, ...]
    memops: tuple[Memop, ...]
    annotations: tuple[Annotation, ...]
    annotation_bins: tuple[AnnotationBin, ...]
    source_groups: tuple[SourceGroup, ...]
    troubled_sources: tuple[Source, ...]
    source_flags: tuple[SourceFlag, ...]
    quarantined: tuple[Quarantined, ...]
    publication: Publication
    causes: Causes = Causes()
    before: RunBefore | None = None
    moved_kernels: tuple[KernelChange, ...] = ()


def job_data(query: Query, job_id: str, attempt: int | None = None) -> JobData:
    """Read a job's page; the latest attempt unless one is named.

    Raises UnknownJobError, with one clear line, where the lake has no such job or attempt.
    """
    job, summary = job_of(query, job_id), _summary(query, job_id, attempt)
    here = f"job_id = {literal(job_id)} AND attempt = {summary.attempt}"
    devices = read.devices(query, here)
    groups = read.step_groups(query, here)
    annotations = read.named_ranges(query, here)
    before = read_changes.run_before(query, job)
    return JobData(
        job=job,
        summary=summary,
        findings=read.findings(query, here),
        devices=devices,
        other_devices=read.other_devices(query, here, len(devices)),
        idle_causes=read.idle_causes(query, here, devices) if devices else (),
        device_models=read.device_models(query, here),
        cells=read.cells(query, here, summary, devices),
        step_groups=groups,
        steps=read.steps(query, here, groups[0]) if groups else (),
        step_bins=read.step_bins(query, here, groups[0]) if groups else (),
        rank_steps=read.rank_steps(query, here, groups[0]) if groups else (),
        steps_left_out=read.steps_left_out(query, here),
        kernels=read.kernels(query, here),
        other_kernels=read.other_kernels(query, here),
        precisions=read.precisions(query, here),
        launches=read.launches(query, here),
        memops=read.memops(query, here),
        annotations=annotations,
        annotation_bins=read.annotation_bins(query, here, annotations),
        source_groups=read.source_groups(query, here),
        troubled_sources=read.troubled_sources(query, here),
        source_flags=read.source_flags(query, here),
        quarantined=read.quarantined(query, job_id),
        publication=read_checks.publication(query, job_id),
        causes=_causes(query, here, groups),
        before=before,
        moved_kernels=read_changes.moved_kernels(query, job, summary, before) if before else (),
    )


def _causes(query: Query, here: str, groups: Sequence[StepGroup]) -> Causes:
    ranks = read_causes.rank_stats(query, here)
    collectives = read_causes.collectives(query, here)
    return Causes(
        outliers=read_causes.outlier_steps(query, here),
        collective_kinds=read_causes.collective_kinds(query, here),
        collectives=collectives,
        collective_waits=read_causes.collective_waits(query, here) if collectives else (),
        rank_stats=ranks,
        rank_excess=read_causes.rank_excess(query, here, groups[0], ranks) if groups else (),
        stragglers=read_causes.stragglers(query, here),
        what_if=read_causes.what_if(query, here),
        clocks=read_causes.clocks(query, here),
        device_samples=read_causes.device_samples(query, here),
    )


def job_of(query: Query, job_id: str) -> Job:
    """What the job is. Raises UnknownJobError where the lake has none of that id."""
    jobs = fetch(query, Job, f"SELECT {names(Job)} FROM {Job.TABLE} WHERE job_id = {literal(job_id)}")
    if not jobs:
        raise UnknownJobError(f"the lake has no job {job_id!r}")
    return jobs[0]


def _summary(query: Query, job_id: str, attempt: int | None) -> Summary:
    which = "" if attempt is None else f" AND attempt = {int(attempt)}"
    rows = fetch(
        query,
        Summary,
        f"SELECT {names(Summary)} FROM {Summary.TABLE} WHERE job_id = {literal(job_id)}{which} "
        "ORDER BY attempt DESC LIMIT 1",
    )
    if not rows:
        what = "has no aggregates yet" if attempt is None else f"has no attempt {int(attempt)}"
        raise UnknownJobError(f"job {job_id!r} {what}")
    return rows[0]
