"""What a job page needs, read from small aggregate rows. Every list is bounded, whatever the size of the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracelake.reports import read, read_causes, read_changes, read_checks, read_steps
from tracelake.reports.cause_rows import (
    Clocks,
    Collective,
    CollectiveKind,
    CollectiveWait,
    DeviceSamples,
    OutlierStep,
    PathShare,
    RankExcess,
    RankStat,
    Straggler,
    WhatIf,
)
from tracelake.reports.change_rows import KernelChange, RunBefore, Verdict
from tracelake.reports.goodput_rows import Goodput, goodput
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
from tracelake.reports.sql import Query, among, by_job, literals, rows_of

__all__ = ["Chosen", "JobData", "Query", "UnknownJobError", "choose", "job_data", "jobs_data"]


TABLES_OF_ALL = ("normalized.jobs", "aggregates.job_summary")
"""A row a job or attempt, read of all jobs: a run is compared with the one before."""
TABLES = tuple(
    f"{layer}.{name}"
    for layer, listed in {
        "normalized": "devices sources",
        "aggregates": "annotation_histogram annotation_stats clock_alignment collective_matches collective_waits"
        " critical_path device_ledger device_samples findings fleet_daily idle_causes kernel_stats launch_stats"
        " memop_stats outlier_steps precision_stats rank_stats rank_steps step_ledger stragglers utilization what_if",
        "operations": "checks publications quarantine",
    }.items()
    for name in listed.split()
)
"""What pages show of their jobs, and of the runs before."""


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
    path: tuple[PathShare, ...] = ()
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
    verdict: Verdict | None = None
    moved_kernels: tuple[KernelChange, ...] = ()
    goodput: Goodput | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """A job and the attempt that its page is about, with the comparable run before and the verdict on all of those."""

    job: Job
    summary: Summary
    before: RunBefore | None = None
    verdict: Verdict | None = None


def choose(query: Query, job_ids: Sequence[str], attempt: int | None = None) -> dict[str, Chosen | UnknownJobError]:
    """What the page of each job is about: the latest attempt unless one is named.

    Needs all jobs and their summaries. A job that has no page has an error of one clear line instead.
    """
    mine = _of_jobs(job_ids)
    which = mine if attempt is None else f"{mine} AND attempt = {int(attempt)}"
    jobs = by_job(query, Job, rows_of(Job, mine), "job_id", 1)
    summaries = by_job(query, Summary, rows_of(Summary, which), "attempt DESC", 1)
    before, verdicts = read_changes.runs_before(query, mine), read_changes.verdicts(query, mine)
    chosen: dict[str, Chosen | UnknownJobError] = {}
    for job_id in job_ids:
        if not jobs.get(job_id):
            chosen[job_id] = UnknownJobError(f"the lake has no job {job_id!r}")
        elif not summaries.get(job_id):
            what = "has no aggregates yet" if attempt is None else f"has no attempt {int(attempt)}"
            chosen[job_id] = UnknownJobError(f"job {job_id!r} {what}")
        else:
            chosen[job_id] = Chosen(
                jobs[job_id][0],
                summaries[job_id][0],
                next(iter(before.get(job_id, ())), None),
                next(iter(verdicts.get(job_id, ())), None),
            )
    return chosen


def job_data(query: Query, job_id: str, attempt: int | None = None) -> JobData:
    """Read one job's page. Raises UnknownJobError where the lake has no such job or attempt."""
    chosen = choose(query, [job_id], attempt)[job_id]
    if isinstance(chosen, UnknownJobError):
        raise chosen
    return jobs_data(query, [chosen])[job_id]


def jobs_data(query: Query, chosen: Sequence[Chosen]) -> dict[str, JobData]:
    """Read the pages of jobs, with as many queries as for one."""
    if not chosen:
        return {}
    mine = _of_jobs([c.job.job_id for c in chosen])
    here = f"{mine} AND {among(('job_id', 'attempt'), ((c.job.job_id, c.summary.attempt) for c in chosen))}"
    devices = read.devices(query, here)
    groups = read_steps.step_groups(query, here)
    main = {job_id: its[0] for job_id, its in groups.items()}
    annotations = read.named_ranges(query, here)
    publications = read_checks.publications(query, mine)
    other_devices = read.other_devices(query, here, devices)
    goodputs = goodput(query, mine)
    lists: dict[str, Mapping[str, Any]] = {
        "findings": read.findings(query, here),
        "devices": devices,
        "idle_causes": read.idle_causes(query, here, devices),
        "device_models": read.device_models(query, here),
        "cells": read.cells(query, here, {c.job.job_id: c.summary for c in chosen}, devices),
        "step_groups": groups,
        "steps": read_steps.steps(query, here, main),
        "step_bins": read_steps.step_bins(query, here, main),
        "rank_steps": read_steps.rank_steps(query, here, main),
        "steps_left_out": read_steps.steps_left_out(query, here),
        "kernels": read.kernels(query, here),
        "other_kernels": read.other_kernels(query, here),
        "precisions": read.precisions(query, here),
        "launches": read.launches(query, here),
        "memops": read.memops(query, here),
        "annotations": annotations,
        "annotation_bins": read.annotation_bins(query, here, annotations),
        "source_groups": read.source_groups(query, here),
        "troubled_sources": read.troubled_sources(query, here),
        "source_flags": read.source_flags(query, here),
        "quarantined": read.quarantined(query, mine),
        "moved_kernels": read_changes.moved_kernels(query, [(c.job, c.summary, c.before) for c in chosen if c.before]),
    }
    causes = _causes(query, here, main)
    return {
        job_id: JobData(
            job=c.job,
            summary=c.summary,
            other_devices=next(iter(other_devices.get(job_id, ())), None),
            publication=next(iter(publications.get(job_id, ())), read_checks.UNCHECKED),
            causes=Causes(**_its(causes, job_id)),
            before=c.before,
            verdict=c.verdict,
            goodput=next(iter(goodputs.get(job_id, ())), None),
            **_its(lists, job_id),
        )
        for c in chosen
        for job_id in [c.job.job_id]
    }


def _causes(query: Query, here: str, groups: Mapping[str, StepGroup]) -> dict[str, Mapping[str, Any]]:
    ranks = read_causes.rank_stats(query, here)
    collectives = read_causes.collectives(query, here)
    return {
        "outliers": read_causes.outlier_steps(query, here),
        "collective_kinds": read_causes.collective_kinds(query, here),
        "collectives": collectives,
        "collective_waits": read_causes.collective_waits(query, here) if collectives else {},
        "rank_stats": ranks,
        "rank_excess": read_causes.rank_excess(query, here, groups, ranks) if ranks and groups else {},
        "stragglers": read_causes.stragglers(query, here),
        "what_if": read_causes.what_if(query, here),
        "path": read_causes.path_shares(query, here),
        "clocks": read_causes.clocks(query, here),
        "device_samples": read_causes.device_samples(query, here),
    }


def _its(lists: Mapping[str, Mapping[str, Any]], job_id: str) -> dict[str, Any]:
    """One job's part of each list."""
    return {name: by.get(job_id, ()) for name, by in lists.items()}


def _of_jobs(job_ids: Iterable[str]) -> str:
    return f"job_id IN {literals(job_ids)}"
