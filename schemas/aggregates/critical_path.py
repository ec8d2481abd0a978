"""Which rank holds a step, when, and with what: the way through the ranks on which each delay delays all."""

from tracelake.schemas.aggregates.collective_waits import TABLE as WAITS
from tracelake.schemas.aggregates.step_ledger import CLASSES_SUM
from tracelake.schemas.aggregates.step_ledger import TABLE as LEDGER
from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, RANK, REASON, duration, ns, number, of, text
from tracelake.schemas.model import Identity, Table, has_reason

TABLE = Table(
    name="aggregates.critical_path",
    grain="one row per segment of a step's critical path, or one that says why a step has none",
    reads=(
        "normalized.sources",
        "normalized.annotations",
        "normalized.kernels",
        "normalized.memops",
        "normalized.launches",
        "normalized.syncs",
        "aggregates.step_ledger",
        "aggregates.collective_waits",
        "aggregates.collective_matches",
    ),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("step_name", "Name of the step."),
        number("step_occurrence", "Number of the step within the attempt, as in step_ledger."),
        number("segment_number", "Number within the step, from 0, in time order: the segments are its path."),
        text("source_id", "The window that holds the step meanwhile; NULL where there is no path.", nullable=True),
        *of(WAITS, "node_id"),
        RANK,
        ns("start_ns", "Start of the segment on its rank's clock; NULL where there is no path.", nullable=True),
        duration("duration_ns", "Length of the segment: the sum of the classes.", nullable=True),
        *of(
            LEDGER, "compute_ns", "exposed_comm_ns", "memcpy_ns", "memset_ns", "runtime_ns", "data_loading_ns",
            "host_work_ns", "other_ns",
        ),
        text("match_group", "Group of the collective that ends it; NULL where the step does.", nullable=True),
        number("match_number", "Number of that collective, as in collective_matches.", nullable=True),
        duration("transfer_ns", "Its transfer time; it may have begun before the segment.", nullable=True),
        REASON,
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "step_name", "step_occurrence", "segment_number"),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(
        Identity("classes_sum_to_segment", CLASSES_SUM),
        Identity("path_or_reason", "(duration_ns IS NULL) = (source_id IS NULL)"),
        Identity("collective_has_its_transfer", "(match_group IS NULL) = (transfer_ns IS NULL)"),
        has_reason("compute_ns", "other_ns"),
    ),
)  # fmt: skip
