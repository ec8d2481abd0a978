"""Host calls that start device work, with what they started."""

from tracelake.schemas.columns import (
    ANNOTATION_ID,
    CORRELATION_ID,
    DURATION,
    END,
    FLAGS,
    START,
    STEP_NAME,
    STEP_OCCURRENCE,
    THREAD_ID,
    WHERE,
    count,
    flag,
    ns,
    number,
    text,
)
from tracelake.schemas.model import Table

TABLE = Table(
    name="normalized.launches",
    grain="one row per host call",
    reads=("raw.source", "raw.launch", "raw.sync", "raw.kernel", "raw.memop", "normalized.ranges"),
    columns=(
        *WHERE,
        number("launch_id", "Number of the launch within its source."),
        THREAD_ID,
        CORRELATION_ID,
        text("api_name", "Function that was called."),
        flag("is_kernel_producing", "Whether the call should produce a kernel (not inside stream capture)."),
        START,
        END,
        DURATION,
        ns(
            "launch_delay_ns",
            "Start of its first device event minus its own start; NULL without one and where negative.",
            nullable=True,
        ),
        ns("first_event_start_ns", "Start of its first device event.", nullable=True),
        count("kernel_count", "Kernels that it started."),
        count("memop_count", "Copies and fills that it started."),
        STEP_NAME,
        STEP_OCCURRENCE,
        ANNOTATION_ID,
        FLAGS,
    ),
    key=("job_id", "source_id", "launch_id"),
    partition_by=("day",),
    cluster_by=("job_id", "start_ns"),
    may_be_empty=True,
)
