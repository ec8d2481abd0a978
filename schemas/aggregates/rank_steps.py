"""What each rank did itself in each step, and how much more that is than its peers did."""

from tracelake.schemas.columns import (
    ATTEMPT,
    JOB_ID,
    METRIC_VERSION,
    NODE_ID,
    RANK,
    REASON,
    SOURCE_ID,
    count,
    duration,
    ns,
    number,
    text,
)
from tracelake.schemas.model import Identity, Table

TABLE = Table(
    name="aggregates.rank_steps",
    grain="one row per step and window",
    reads=(
        "normalized.sources",
        "normalized.ranges",
        "normalized.kernels",
        "normalized.launches",
        "normalized.syncs",
        "aggregates.step_ledger",
    ),
    columns=(
        JOB_ID,
        ATTEMPT,
        SOURCE_ID,
        NODE_ID,
        RANK,
        text("step_name", "Name of the step."),
        number("step_occurrence", "Number of the step within the attempt and rank, as in step_ledger."),
        duration("duration_ns", "Length of the step on its host thread."),
        duration("exposed_comm_ns", "Exposed communication of the step ledger.", nullable=True),
        duration("host_comm_ns", "Communication calls of the host outside communication kernels."),
        duration("blocked_ns", "Time in which a call held the host: synchronization, slow launch or communication."),
        duration("launch_call_ns", "Launching calls of the step, summed."),
        duration("held_ns", "How long communication held the rank; NULL with own work.", nullable=True),
        duration("own_work_ns", "Step time without that.", nullable=True),
        count("ranks_seen_count", "Ranks whose own work in this step is compared."),
        duration("peer_own_work_ns", "Lower median of their own work.", nullable=True),
        ns("excess_ns", "Own work above it; below 0 for a faster rank.", nullable=True),
        REASON,
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "source_id", "step_name", "step_occurrence"),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(
        Identity("own_work_and_held_sum_to_step", "own_work_ns + held_ns = duration_ns"),
        Identity("excess_is_over_peers", "own_work_ns - peer_own_work_ns = excess_ns"),
        Identity("compared_or_reason", "(excess_ns IS NULL) = (reason IS NOT NULL)"),
    ),
)
