"""The queries behind the panels of causes: one function per list, each with its bound.

`here` is the condition that chooses jobs and attempts; lists come by job.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from tracelake.reports.metric_rows import StepGroup
from tracelake.reports.sql import ByJob, Query, among, by_job, first, rows_of, table

MAX_OUTLIERS = 40
MAX_COLLECTIVES = 12
MAX_KINDS = 20
MAX_RANKS = 64
MAX_STRAGGLERS = 12
MAX_SCENARIOS = 12
MAX_PATH_RANKS = 8
MAX_STRETCHES = 100
"""Columns of the heat map of ranks and steps."""

_LONGEST = "wait_max_ns DESC, match_group, match_number"


def outlier_steps(query: Query, here: str) -> ByJob[OutlierStep]:
    """Unusual steps, those that cost most first."""
    order = "abs(excess_ns) DESC, step_occurrence, step_name"
    return by_job(query, OutlierStep, rows_of(OutlierStep, here), order, MAX_OUTLIERS)


def collective_kinds(query: Query, here: str) -> ByJob[CollectiveKind]:
    """Collectives by operation, the most waited for first."""
    sums = "sum(transfer_ns) AS transfer_sum_ns, sum(wait_sum_ns) AS wait_sum_ns"
    return by_job(
        query,
        CollectiveKind,
        f"SELECT job_id, operation, count(*) AS collective_count, count_if(is_reliable) AS reliable_count, {sums}, "
        "percentile(bus_bandwidth_bytes_per_s, 0.5) AS bus_bandwidth_bytes_per_s, mode(reason) AS reason "
        f"FROM {table(Collective)} WHERE {here} GROUP BY job_id, operation",
        "wait_sum_ns DESC NULLS LAST, operation",
        MAX_KINDS,
    )


def collectives(query: Query, here: str) -> ByJob[Collective]:
    """The collectives with the longest waits."""
    return by_job(query, Collective, rows_of(Collective, f"{here} AND is_reliable"), _LONGEST, MAX_COLLECTIVES)


def collective_waits(query: Query, here: str) -> ByJob[CollectiveWait]:
    """How long each rank waited in those; of very many ranks, the ends of the order: who came last and first."""
    one = "job_id, match_group, match_number"
    ordered = f"row_number() OVER (PARTITION BY {one} ORDER BY wait_ns, rank)"
    longest = first(rows_of(Collective, f"{here} AND is_reliable"), _LONGEST, MAX_COLLECTIVES)
    waits = rows_of(CollectiveWait, f"{here} AND is_reliable")
    return by_job(
        query,
        CollectiveWait,
        f"SELECT * FROM (SELECT *, {ordered} AS n, count(*) OVER (PARTITION BY {one}) AS of_n FROM "
        f"({waits}) LEFT SEMI JOIN ({longest}) USING ({one})) WHERE n < {MAX_RANKS} OR n = of_n",
        "match_group, match_number, rank",
        MAX_COLLECTIVES * MAX_RANKS,
    )


def rank_stats(query: Query, here: str) -> ByJob[RankStat]:
    """The ranks with the largest excess, in order of rank."""
    most = first(rows_of(RankStat, here), "excess_ns DESC NULLS LAST, rank", MAX_RANKS)
    return by_job(query, RankStat, most, "rank", MAX_RANKS)


def rank_excess(query: Query, here: str, groups: Mapping[str, StepGroup], shown: ByJob[RankStat]) -> ByJob[RankExcess]:
    """Excess of the listed ranks; of each run of consecutive steps the largest, so that no slow step is lost."""
    steps = among(("job_id", "step_name"), ((job_id, group.step_name) for job_id, group in groups.items()))
    ranks = among(("job_id", "rank"), ((job_id, r.rank) for job_id, its in shown.items() for r in its))
    run = f"greatest(1, ceil((max(step_occurrence) OVER (PARTITION BY job_id) + 1) / {MAX_STRETCHES}))"
    return by_job(
        query,
        RankExcess,
        "SELECT job_id, rank, min(step_occurrence) AS first_step, count(*) AS step_count, max(ratio) AS excess_ratio "
        "FROM (SELECT job_id, rank, step_occurrence, excess_ns / nullif(peer_own_work_ns, 0) AS ratio, "
        f"step_occurrence DIV {run} AS stretch FROM rank_steps "
        f"WHERE {here} AND {steps} AND {ranks} AND excess_ns IS NOT NULL) "
        "WHERE ratio IS NOT NULL GROUP BY job_id, rank, stretch",
        "rank, first_step",
        MAX_RANKS * MAX_STRETCHES,
    )


def stragglers(query: Query, here: str) -> ByJob[Straggler]:
    return by_job(query, Straggler, rows_of(Straggler, here), "cost_sum_ns DESC, rank", MAX_STRAGGLERS)


def what_if(query: Query, here: str) -> ByJob[WhatIf]:
    """Scenarios that save anything, the most first."""
    saving = rows_of(WhatIf, f"{here} AND saved_ratio > 0")
    return by_job(query, WhatIf, saving, "saved_ratio DESC, scenario, subject", MAX_SCENARIOS)


def clocks(query: Query, here: str) -> ByJob[Clocks]:
    return by_job(
        query,
        Clocks,
        "SELECT job_id, method, reason, count(*) AS window_count, max(abs(offset_ns)) AS offset_max_ns, "
        f"max(residual_ns) AS residual_max_ns FROM clock_alignment WHERE {here} GROUP BY job_id, method, reason",
        "window_count DESC, method, reason",
        MAX_KINDS,
    )


def device_samples(query: Query, here: str) -> ByJob[DeviceSamples]:
    """Sampled devices: where there are many, those with lowered clocks, then those with most memory in use."""
    worst = "throttled_ratio DESC NULLS LAST, memory_max_bytes DESC NULLS LAST, device_id"
    shown = first(rows_of(DeviceSamples, here), worst, MAX_RANKS)
    return by_job(query, DeviceSamples, shown, "rank NULLS LAST, device_id", MAX_RANKS)


def path_shares(query: Query, here: str) -> ByJob[PathShare]:
    """The ranks with most time on the critical path of the steps."""
    own = ("duration_ns", "compute_ns", "exposed_comm_ns", "runtime_ns", "data_loading_ns", "host_work_ns", "other_ns")
    sums = ", ".join(f"sum({name}) AS {name}" for name in own)
    return by_job(
        query,
        PathShare,
        f"SELECT job_id, rank, count(DISTINCT step_name, step_occurrence) AS step_count, {sums}, "
        "sum(memcpy_ns) + sum(memset_ns) AS exposed_mem_ns, min(reason) AS reason, "
        "sum(sum(duration_ns)) OVER (PARTITION BY job_id) AS path_ns "
        f"FROM critical_path WHERE {here} GROUP BY job_id, rank",
        "duration_ns DESC NULLS LAST, rank",
        MAX_PATH_RANKS,
    )
