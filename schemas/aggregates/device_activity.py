"""What each device did, per time bucket and step: the sums that the device ledger is made from."""

from tracelake.schemas.columns import ATTEMPT, DEVICE_ID, JOB_ID, METRIC_VERSION, SOURCE_ID, duration, number, text
from tracelake.schemas.model import Identity, Table

TABLE = Table(
    name="aggregates.device_activity",
    grain="one row per device, time bucket and step with anything live",
    reads=(
        "normalized.sources",
        "normalized.devices",
        "normalized.kernels",
        "normalized.memops",
        "normalized.syncs",
        "normalized.annotations",
    ),
    columns=(
        JOB_ID,
        ATTEMPT,
        SOURCE_ID,
        DEVICE_ID,
        number("bucket", "Number of the time bucket, from the window's start."),
        text("step_name", "Name of the step on the host then; NULL outside steps.", nullable=True),
        number("step_occurrence", "Number of that step within its source and name.", nullable=True),
        duration("compute_ns", "Time with a compute kernel."),
        duration("exposed_comm_ns", "Time with a communication kernel and no compute kernel."),
        duration("exposed_mem_ns", "Time with a copy or fill and no kernel."),
        duration("sync_idle_ns", "Time with no device activity during a blocking synchronization of the process."),
        duration("comm_ns", "Time with a communication kernel."),
        duration("overlapped_comm_ns", "Time with a communication kernel and a compute kernel."),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "source_id", "device_id", "bucket", "step_name", "step_occurrence"),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(Identity("communication_is_exposed_or_overlapped", "exposed_comm_ns + overlapped_comm_ns = comm_ns"),),
)
