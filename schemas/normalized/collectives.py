"""Communication kernels whose arguments say which collective they run."""

from tracelake.schemas.columns import DEVICE_ID, DURATION, END, START, WHERE, count, number, size, text
from tracelake.schemas.model import Table

TABLE = Table(
    name="normalized.collectives",
    grain="one row per collective and rank",
    reads=("normalized.kernels", "raw.kernel"),
    columns=(
        *WHERE,
        DEVICE_ID,
        number("kernel_id", "event_id of its kernel."),
        text("group_id", "Process group.", nullable=True),
        count("group_size_count", "Ranks in the process group.", nullable=True),
        number("sequence", "Sequence number within the group; NULL where arguments do not say.", nullable=True),
        text("operation", "Operation, such as allreduce."),
        size("bytes", "Bytes that the collective takes in on this rank.", nullable=True),
        text("dtype", "Data type of the elements.", nullable=True),
        START,
        END,
        DURATION,
    ),
    key=("job_id", "source_id", "kernel_id"),
    partition_by=("day",),
    cluster_by=("job_id", "start_ns"),
    may_be_empty=True,
)
