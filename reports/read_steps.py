"""The queries behind the steps of a job page, each with its bound; `here` as in read.py."""

from __future__ import annotations

from collections.abc import Mapping

from tracelake.reports.format import nice_width
from tracelake.reports.metric_rows import Bin, RankSteps, Step, StepGroup, StepParts, StepsLeftOut
from tracelake.reports.read import MAX_ROWS, MAX_SMALL
from tracelake.reports.sql import ByJob, Query, among, by_job, columns, first, given, table
from tracelake.schemas.steps import INFERRED_STEP

MAX_STEPS = 2_000
MAX_BINS = 40


def _slowest(here: str) -> str:
    """Steps that count, all but the cut ones, each on its slowest rank, as a query."""
    kept = ", ".join(columns(StepParts))
    return (
        "SELECT job_id, step_name, step_occurrence, max(duration_ns) AS duration_ns, "
        f"max_by(struct(step_index, rank, node_id, {kept}), duration_ns) AS worst "
        f"FROM step_ledger WHERE {here} AND status <> 'cut' GROUP BY job_id, step_name, step_occurrence"
    )


def _nearest_rank(share: float) -> str:
    """A percentile that is one of the durations, as the aggregates have it."""
    return f"CAST(percentile_disc({share}) WITHIN GROUP (ORDER BY duration_ns) AS BIGINT)"


def step_groups(query: Query, here: str) -> ByJob[StepGroup]:
    """Steps by name, the one with the most time first, inferred ones last: the page is about the first one and mentions
    the others."""
    return by_job(
        query,
        StepGroup,
        "SELECT job_id, step_name, count(*) AS step_count, sum(duration_ns) AS duration_sum_ns, "
        f"min(duration_ns) AS duration_min_ns, {_nearest_rank(0.5)} AS duration_p50_ns, "
        f"{_nearest_rank(0.99)} AS duration_p99_ns, max(duration_ns) AS duration_max_ns "
        f"FROM ({_slowest(here)}) GROUP BY job_id, step_name",
        f"step_name = '{INFERRED_STEP}', duration_sum_ns DESC, step_name",
        MAX_SMALL,
    )


def _of_groups(groups: Mapping[str, StepGroup]) -> str:
    return among(("job_id", "step_name"), ((job_id, group.step_name) for job_id, group in groups.items()))


def steps(query: Query, here: str, groups: Mapping[str, StepGroup]) -> ByJob[Step]:
    """Steps in time order; where there are more than MAX_STEPS, the slowest of each run of consecutive ones."""
    if not groups:
        return {}
    runs = given(("job_id", "run"), ((job_id, max(1, -(-g.step_count // MAX_STEPS))) for job_id, g in groups.items()))
    worst = ", ".join(f"w.worst.{c} AS {c}" for c in ("step_index", "rank", "node_id", *columns(StepParts)))
    return by_job(
        query,
        Step,
        f"SELECT job_id, step_count, w.step_occurrence, w.duration_ns, {worst} FROM (SELECT job_id, "
        "count(*) AS step_count, max_by(struct(step_occurrence, duration_ns, worst), duration_ns) AS w "
        f"FROM ({_slowest(f'{here} AND {_of_groups(groups)}')}) JOIN ({runs}) USING (job_id) "
        "GROUP BY job_id, step_occurrence DIV run)",
        "step_occurrence",
        MAX_STEPS + 1,
    )


def step_bins(query: Query, here: str, groups: Mapping[str, StepGroup]) -> ByJob[Bin]:
    """Histogram over all steps of the group, in bins of a width from the 1-2-5 series.

    The width follows the 99th percentile; what lies far beyond it shares one last, wider bin.
    """
    if not groups:
        return {}
    bins = given(("job_id", "width_ns", "last_ns", "max_ns"), ((job_id, *_bins(g)) for job_id, g in groups.items()))
    return by_job(
        query,
        Bin,
        "SELECT job_id, low_ns, CASE WHEN low_ns < last_ns THEN low_ns + width_ns "
        "ELSE greatest(low_ns + width_ns, max_ns) END AS high_ns, count(*) AS count FROM (SELECT *, "
        "least(duration_ns DIV width_ns * width_ns, last_ns) AS low_ns "
        f"FROM ({_slowest(f'{here} AND {_of_groups(groups)}')}) JOIN ({bins}) USING (job_id)) "
        "GROUP BY job_id, low_ns, width_ns, last_ns, max_ns",
        "low_ns",
        MAX_SMALL,
    )


def _bins(group: StepGroup) -> tuple[int, int, int]:
    """Width, start of the last bin, longest step."""
    width = nice_width(group.duration_p99_ns - group.duration_min_ns, MAX_BINS // 2)
    return width, (group.duration_min_ns // width + MAX_BINS) * width, group.duration_max_ns


def rank_steps(query: Query, here: str, groups: Mapping[str, StepGroup]) -> ByJob[RankSteps]:
    """Mean step of each rank, the slowest ranks where there are too many; the other_ns takes up the rounding."""
    parts = [c for c in columns(StepParts) if c != "other_ns"]
    means = ", ".join(f"sum({c}) DIV count(*) AS {c}" for c in (*parts, "duration_ns"))
    known = " + ".join(f"coalesce({c}, 0)" for c in parts)
    mean = (
        f"SELECT job_id, rank, min(node_id) AS node_id, min(source_id) AS source_id, count(*) AS step_count, {means}, "
        f"count(other_ns) AS known_count FROM step_ledger WHERE {here} AND status = 'complete' "
        f"AND {_of_groups(groups)} GROUP BY job_id, rank, CASE WHEN rank IS NULL THEN source_id END"
    )
    slowest = first(mean, "duration_ns DESC, rank, source_id", MAX_ROWS)
    return by_job(
        query,
        RankSteps,
        f"SELECT *, CASE WHEN known_count > 0 THEN duration_ns - ({known}) END AS other_ns FROM ({slowest})",
        "rank NULLS LAST, source_id",
        MAX_ROWS,
    )


def steps_left_out(query: Query, here: str) -> ByJob[StepsLeftOut]:
    return by_job(
        query,
        StepsLeftOut,
        f"SELECT job_id, status, reason, count(*) AS step_count FROM {table(StepsLeftOut)} "
        f"WHERE {here} AND status <> 'complete' GROUP BY job_id, status, reason",
        "step_count DESC, status, reason",
        MAX_SMALL,
    )
