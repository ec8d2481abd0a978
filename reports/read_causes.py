"""The queries behind the panels of causes: one function per list, each with its bound."""

from __future__ import annotations

from collections.abc import Sequence

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
from tracelake.reports.metric_rows import StepGroup
from tracelake.reports.sql import Query, columns, fetch, literal, names

MAX_OUTLIERS = 40
MAX_COLLECTIVES = 12
MAX_KINDS = 20
MAX_RANKS = 64
MAX_STRAGGLERS = 12
MAX_SCENARIOS = 12
MAX_STRETCHES = 100
"""Columns of the heat map of ranks and steps."""


def outlier_steps(query: Query, here: str) -> tuple[OutlierStep, ...]:
    """Unusual steps, those that cost most first."""
    sql = f"SELECT {names(OutlierStep)} FROM {OutlierStep.TABLE} WHERE {here}"
    return fetch(query, OutlierStep, f"{sql} ORDER BY abs(excess_ns) DESC, step_occurrence LIMIT {MAX_OUTLIERS}")


def collective_kinds(query: Query, here: str) -> tuple[CollectiveKind, ...]:
    """Collectives by operation, the most waited for first."""
    sums = "sum(transfer_ns) AS transfer_sum_ns, sum(wait_sum_ns) AS wait_sum_ns"
    return fetch(
        query,
        CollectiveKind,
        f"SELECT operation, count(*) AS collective_count, count_if(is_reliable) AS reliable_count, {sums}, "
        "percentile(bus_bandwidth_bytes_per_s, 0.5) AS bus_bandwidth_bytes_per_s, mode(reason) AS reason "
        f"FROM {Collective.TABLE} WHERE {here} GROUP BY operation "
        f"ORDER BY wait_sum_ns DESC NULLS LAST, operation LIMIT {MAX_KINDS}",
    )


def _longest(here: str) -> str:
    order = "wait_max_ns DESC, match_group, match_number"
    return (
        f"SELECT {names(Collective)} FROM {Collective.TABLE} WHERE {here} AND is_reliable "
        f"ORDER BY {order} LIMIT {MAX_COLLECTIVES}"
    )


def collectives(query: Query, here: str) -> tuple[Collective, ...]:
    """The collectives with the longest waits."""
    return fetch(query, Collective, _longest(here))


def collective_waits(query: Query, here: str) -> tuple[CollectiveWait, ...]:
    """How long each rank waited in those; of very many ranks, the ends of the order: who came last and first."""
    ordered = "row_number() OVER (PARTITION BY match_group, match_number ORDER BY wait_ns, rank)"
    waits = f"SELECT rank, wait_ns, match_group, match_number FROM {CollectiveWait.TABLE} WHERE {here} AND is_reliable"
    return fetch(
        query,
        CollectiveWait,
        f"SELECT * FROM (SELECT *, {ordered} AS n, count(*) OVER (PARTITION BY match_group, match_number) AS of_n FROM "
        f"({waits}) LEFT SEMI JOIN ({_longest(here)}) USING (match_group, match_number)) "
        f"WHERE n < {MAX_RANKS} OR n = of_n ORDER BY match_group, match_number, rank "
        f"LIMIT {MAX_COLLECTIVES * MAX_RANKS}",
    )


def rank_stats(query: Query, here: str) -> tuple[RankStat, ...]:
    """The ranks with the largest excess, in order of rank."""
    most = f"SELECT {names(RankStat)} FROM {RankStat.TABLE} WHERE {here} ORDER BY excess_ns DESC NULLS LAST, rank"
    return fetch(query, RankStat, f"SELECT * FROM ({most} LIMIT {MAX_RANKS}) ORDER BY rank LIMIT {MAX_RANKS}")


def rank_excess(query: Query, here: str, group: StepGroup, shown: Sequence[RankStat]) -> tuple[RankExcess, ...]:
    """Excess of the listed ranks; of each run of consecutive steps the largest, so that no slow step is lost."""
    if not shown:
        return ()
    ranks = ", ".join(str(r.rank) for r in shown)
    which = f"{here} AND step_name = {literal(group.step_name)} AND excess_ns IS NOT NULL AND rank IN ({ranks})"
    run = f"greatest(1, ceil((max(step_occurrence) OVER () + 1) / {MAX_STRETCHES}))"
    ratio = "excess_ns / nullif(peer_own_work_ns, 0)"
    return fetch(
        query,
        RankExcess,
        "SELECT rank, min(step_occurrence) AS first_step, count(*) AS step_count, max(ratio) AS excess_ratio FROM "
        f"(SELECT rank, step_occurrence, {ratio} AS ratio, step_occurrence DIV {run} AS stretch "
        f"FROM aggregates.rank_steps WHERE {which}) WHERE ratio IS NOT NULL GROUP BY rank, stretch "
        f"ORDER BY rank, first_step LIMIT {MAX_RANKS * MAX_STRETCHES}",
    )


def stragglers(query: Query, here: str) -> tuple[Straggler, ...]:
    sql = f"SELECT {names(Straggler)} FROM {Straggler.TABLE} WHERE {here}"
    return fetch(query, Straggler, f"{sql} ORDER BY cost_sum_ns DESC, rank LIMIT {MAX_STRAGGLERS}")


def what_if(query: Query, here: str) -> tuple[WhatIf, ...]:
    """Scenarios that save anything, the most first."""
    sql = f"SELECT {names(WhatIf)} FROM {WhatIf.TABLE} WHERE {here} AND saved_ratio > 0"
    return fetch(query, WhatIf, f"{sql} ORDER BY saved_ratio DESC, scenario, subject LIMIT {MAX_SCENARIOS}")


def clocks(query: Query, here: str) -> tuple[Clocks, ...]:
    return fetch(
        query,
        Clocks,
        "SELECT method, reason, count(*) AS window_count, max(abs(offset_ns)) AS offset_max_ns, "
        f"max(residual_ns) AS residual_max_ns FROM aggregates.clock_alignment WHERE {here} "
        f"GROUP BY method, reason ORDER BY window_count DESC, method LIMIT {MAX_KINDS}",
    )


def device_samples(query: Query, here: str) -> tuple[DeviceSamples, ...]:
    """Sampled devices: where there are many, those with lowered clocks, then those with most memory in use."""
    worst = "throttled_ratio DESC NULLS LAST, memory_max_bytes DESC NULLS LAST, device_id"
    shown = f"SELECT {names(DeviceSamples)} FROM {DeviceSamples.TABLE} WHERE {here} ORDER BY {worst} LIMIT {MAX_RANKS}"
    return fetch(
        query,
        DeviceSamples,
        f"SELECT {', '.join(columns(DeviceSamples))} FROM ({shown}) ORDER BY rank NULLS LAST, device_id "
        f"LIMIT {MAX_RANKS}",
    )
