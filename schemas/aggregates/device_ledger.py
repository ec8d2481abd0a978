"""Where the time of each device went: parts that sum to the window, in integer nanoseconds."""

from tracelake.schemas.columns import (
    ATTEMPT,
    JOB_ID,
    METRIC_VERSION,
    NODE_ID,
    OPTIONAL_DEVICE_ID,
    RANK,
    REASON,
    duration,
    ns,
    number,
    ratio,
    text,
)
from tracelake.schemas.model import Identity, Table, has_reason, one_of

TABLE = Table(
    name="aggregates.device_ledger",
    grain="one row per device and scope: job (its windows), window, step or time bucket",
    reads=(
        "normalized.sources",
        "normalized.devices",
        "normalized.annotations",
        "aggregates.step_launches",
        "aggregates.device_activity",
    ),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("source_id", "The window; NULL in scope job.", nullable=True),
        NODE_ID,
        RANK,
        OPTIONAL_DEVICE_ID,
        text("scope", "What the row is about.", checks=(one_of("job", "window", "step", "bucket"),)),
        text("step_name", "Name of the step; NULL outside scope step.", nullable=True),
        number(
            "step_occurrence", "Number of the step within its source and name; NULL outside scope step.", nullable=True
        ),
        ns("bucket_start_ns", "Start of the time bucket; NULL outside scope bucket.", nullable=True),
        duration("window_ns", "Length of the scope: the sum of the parts."),
        duration("compute_ns", "Time with a compute kernel.", nullable=True),
        duration("exposed_comm_ns", "Time with a communication kernel and no compute kernel.", nullable=True),
        duration("exposed_mem_ns", "Time with a copy or fill and no kernel.", nullable=True),
        duration("idle_ns", "Time with no device activity.", nullable=True),
        duration("sync_idle_ns", "Part of idle_ns during a blocking synchronization of the process.", nullable=True),
        duration("comm_ns", "Time with a communication kernel.", nullable=True),
        duration("overlapped_comm_ns", "Time with a communication kernel and a compute kernel.", nullable=True),
        ratio("gpu_active_ratio", "Share of the window with any device activity."),
        ratio("kernel_busy_ratio", "Share of the window with any kernel."),
        ratio("comm_overlap_ratio", "overlapped_comm_ns over comm_ns; NULL without communication."),
        ratio("launch_coverage_ratio", "Launch coverage of the window or windows."),
        REASON,
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "source_id", "device_id", "scope", "step_name", "step_occurrence", "bucket_start_ns"),
    cluster_by=("job_id",),
    identities=(
        Identity("parts_sum_to_window", "compute_ns + exposed_comm_ns + exposed_mem_ns + idle_ns = window_ns"),
        Identity("communication_is_exposed_or_overlapped", "exposed_comm_ns + overlapped_comm_ns = comm_ns"),
        Identity("synchronization_is_idle", "sync_idle_ns <= idle_ns"),
        has_reason("compute_ns", "idle_ns"),
    ),
)
