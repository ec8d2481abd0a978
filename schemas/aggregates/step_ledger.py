"""What each step is made of: each instant goes to the first live class."""

from tracelake.schemas.columns import (
    ATTEMPT,
    IS_INFERRED,
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
from tracelake.schemas.model import Identity, Table, has_reason, one_of

# Where a window has no device events, its device classes are unknown and take no part.
CLASSES_SUM = (
    "coalesce(compute_ns, 0) + coalesce(exposed_comm_ns, 0) + coalesce(memcpy_ns, 0) + coalesce(memset_ns, 0)"
    " + runtime_ns + data_loading_ns + host_work_ns + other_ns = duration_ns"
)

TABLE = Table(
    name="aggregates.step_ledger",
    grain="one row per step and source",
    reads=(
        "normalized.sources",
        "normalized.annotations",
        "normalized.kernels",
        "normalized.memops",
        "normalized.launches",
        "normalized.syncs",
        "normalized.collectives",
        "aggregates.step_launches",
    ),
    columns=(
        JOB_ID,
        ATTEMPT,
        SOURCE_ID,
        NODE_ID,
        RANK,
        text("step_name", "Name of the step."),
        number("step_index", "Number in the step's name, a label only.", nullable=True),
        number("step_occurrence", "Number of the step within the attempt and rank, from 0, in time order."),
        ns("start_ns", "Start on the host, Unix time."),
        duration("duration_ns", "Length on its host thread: the sum of the classes."),
        duration("compute_ns", "Compute kernels.", nullable=True),
        duration("exposed_comm_ns", "Communication kernels outside compute.", nullable=True),
        duration("memcpy_ns", "Copies outside kernels.", nullable=True),
        duration("memset_ns", "Fills outside kernels and copies.", nullable=True),
        duration("runtime_ns", "Launch and synchronization calls outside device work.", nullable=True),
        duration("data_loading_ns", "Data loading outside the above.", nullable=True),
        duration("host_work_ns", "Other annotated host work outside the above.", nullable=True),
        duration("other_ns", "The rest.", nullable=True),
        duration(
            "exposed_p2p_ns",
            "Of exposed communication, sends and receives; NULL where none ran, or device times are unknown.",
            nullable=True,
        ),
        duration("gpu_time_ns", "Union of the device events that the step launched, whenever they ran.", nullable=True),
        count("launch_count", "Launches that fall in the step."),
        text("status", "Whether the step counts in statistics.", checks=(one_of("complete", "uncovered", "cut"),)),
        REASON,
        IS_INFERRED,
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "source_id", "step_name", "step_occurrence"),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(
        Identity("classes_sum_to_step", CLASSES_SUM),
        Identity("sends_are_exposed_communication", "exposed_p2p_ns <= exposed_comm_ns"),
        has_reason("compute_ns", "other_ns"),
    ),
)
