"""How long each step took on its slowest rank, and whether that is usual."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, REASON, count, duration, ns, number, text
from tracelake.schemas.model import Column, Identity, Table, Type, one_of

GROUPS = ("training", "checkpoint", "evaluation")
KINDS = ("usual", "slow", "fast", "warm_up", "withheld")

TABLE = Table(
    name="aggregates.step_times",
    grain="one row per attempt and step that some rank completed",
    reads=("normalized.annotations", "aggregates.step_ledger"),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("step_name", "Name of the step."),
        number("step_index", "Number in the step's name, a label only.", nullable=True),
        number("step_occurrence", "Number of the step within the attempt, from 0, in time order."),
        ns("start_ns", "Earliest start of a rank, Unix time."),
        duration("duration_ns", "Step time of the slowest rank."),
        Column("slowest_rank", Type.INT, "That rank; NULL where the input does not say.", nullable=True),
        count("rank_count", "Windows with a complete step of known classes."),
        text(
            "step_group",
            "What it is compared with: steps in which a rank saves a checkpoint or evaluates are apart.",
            checks=(one_of(*GROUPS),),
        ),
        number("stretch", "Number of the stretch of its group within which its parts are compared.", nullable=True),
        text("kind", "How it compares.", checks=(one_of(*KINDS),)),
        duration(
            "median_ns", "Median of the steps that it is compared with; of all steps for a warm-up.", nullable=True
        ),
        duration("spread_ns", "Their spread: 1.4826 MAD, at least 1 % of the median and 1 ns.", nullable=True),
        Column("score", Type.DOUBLE, "Distance from the median in spreads.", nullable=True),
        REASON,
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "step_name", "step_occurrence"),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(
        Identity("judged_or_reason", "(score IS NULL) = (kind IN ('warm_up', 'withheld'))"),
        Identity("withheld_has_reason", "(kind = 'withheld') = (reason IS NOT NULL)"),
    ),
)
