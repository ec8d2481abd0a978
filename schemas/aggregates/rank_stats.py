"""Each rank over all steps: its own work beside its peers', what its excess lies in, and whether it is slow."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, NODE_ID, RANK, count, duration, ns, ratio, text
from tracelake.schemas.model import Column, Identity, Table, Type, Unit, one_of

CAUSES = ("compute", "throttled", "memcpy", "memset", "runtime", "data_loading", "host_work", "other", "mixed")
WITHHELD = ("one_rank", "too_few_ranks", "too_few_steps", "host_bound")

TABLE = Table(
    name="aggregates.rank_stats",
    grain="one row per rank, over the steps of the name with most time",
    reads=(
        "normalized.sources",
        "normalized.devices",
        "aggregates.step_ledger",
        "aggregates.rank_steps",
        "aggregates.device_samples",
    ),
    columns=(
        JOB_ID,
        ATTEMPT,
        NODE_ID,
        RANK,
        text("step_name", "Name of the steps."),
        count("step_count", "Steps in which it is compared."),
        count("ranks_seen_count", "Ranks that are compared."),
        count("ranks_expected_count", "Ranks of the job; NULL where unknown.", nullable=True),
        duration("own_work_median_ns", "Median of its own work."),
        duration("peer_own_work_ns", "Median over steps of its peers' own work.", nullable=True),
        ns("excess_ns", "Median over steps of its own work above theirs; what it costs a step.", nullable=True),
        duration("spread_ns", "1.4826 times the median distance of the steps' excess from that.", nullable=True),
        Column(
            "slowdown_ratio", Type.DOUBLE, "Median own work over the peers', less 1.", Unit.RATIO, nullable=True
        ),
        text(
            "cause",
            "Class of the step ledger that holds most of the excess, or throttled; NULL without excess.",
            nullable=True,
            checks=(one_of(*CAUSES),),
        ),
        ns("cause_excess_ns", "Median excess of that class over the peers'.", nullable=True),
        ratio("compute_ratio", "Median over steps of compute in step time."),
        ratio("bubble_ratio", "Median over steps of exposed sends and receives in step time; NULL where none ran."),
        Column("clock_ratio", Type.DOUBLE, "Median clock of its device over the peers'.", Unit.RATIO, nullable=True),
        ratio("throttled_ratio", "Share of its device's samples with the clock lowered by heat or power brake."),
        Column("is_host_bound", Type.BOOLEAN, "Whether the host sets the pace of the job's ranks."),
        Column("is_slow", Type.BOOLEAN, "Verdict; NULL where withheld.", nullable=True),
        text("reason", "Why there is no verdict.", nullable=True, checks=(one_of(*WITHHELD),)),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "rank"),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(Identity("verdict_or_reason", "(is_slow IS NULL) = (reason IS NOT NULL)"),),
)  # fmt: skip
