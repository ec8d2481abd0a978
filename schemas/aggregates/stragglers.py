"""Ranks that the others wait for in most steps: how slow, why, and what it costs."""

from tracelake.schemas.aggregates.rank_stats import TABLE as STATS
from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, NODE_ID, RANK, count, duration, ns, of, text
from tracelake.schemas.model import Column, Table, Type, Unit, one_of

TABLE = Table(
    name="aggregates.stragglers",
    grain="one row per slow rank",
    reads=("aggregates.rank_stats",),
    columns=(
        JOB_ID,
        ATTEMPT,
        NODE_ID,
        RANK,
        text("step_name", "Name of the steps."),
        text(
            "verdict",
            "Whether the rank is slow, or all ranks of its node are.",
            checks=(one_of("rank", "node"),),
        ),
        Column("slowdown_ratio", Type.DOUBLE, "Median own work over the peers', less 1.", Unit.RATIO),
        duration("excess_ns", "What it adds to a step: median own work above the peers'."),
        duration("cost_sum_ns", "Time that all ranks lose by it; of ranks that are slow together, its share."),
        count("step_count", "Steps in which it was compared."),
        *of(STATS, "ranks_seen_count", "ranks_expected_count"),
        text("cause", "What holds the excess: a class of the step ledger, throttled, or mixed.", nullable=True),
        ns("cause_excess_ns", "Median excess of that class over the peers'.", nullable=True),
        duration("own_work_median_ns", "Median of its own work."),
        duration("peer_own_work_ns", "Median over steps of its peers' own work."),
        *of(STATS, "spread_ns", "clock_ratio", "throttled_ratio"),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "rank"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
