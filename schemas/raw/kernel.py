"""Kernels as they ran on a device."""

from tracelake.schemas.columns import (
    CORRELATION_ID,
    DURATION,
    EVENT_ID,
    JOB_ID,
    SOURCE_ID,
    START,
    STREAM_ID,
    count,
    number,
    ratio,
    size,
    text,
)
from tracelake.schemas.model import Table

TABLE = Table(
    name="raw.kernel",
    grain="one row per kernel execution",
    columns=(
        JOB_ID,
        SOURCE_ID,
        EVENT_ID,
        text("name", "Function name as the tool wrote it, bytes outside UTF-8 escaped."),
        START,
        DURATION,
        number("device_index", "Index of the device as the process sees it.", nullable=True),
        STREAM_ID,
        CORRELATION_ID,
        count("grid_count", "Thread blocks of the grid.", nullable=True),
        count("block_count", "Threads of a block.", nullable=True),
        ratio("occupancy_ratio", "Estimated achieved occupancy.", nullable=True),
        text("collective_name", "Collective operation that the kernel runs, where arguments say.", nullable=True),
        text("dtype", "Data type of the collective, where arguments say.", nullable=True),
        size("message_bytes", "Bytes that the collective takes in on this rank.", nullable=True),
        text("group_id", "Process group of the collective.", nullable=True),
        count("group_size_count", "Ranks in the process group.", nullable=True),
        number("sequence", "Sequence number of the collective within its group.", nullable=True),
    ),
    key=("job_id", "source_id", "event_id"),
)
