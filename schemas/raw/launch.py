"""Host calls that start kernels or memory operations."""

from tracelake.schemas.columns import (
    CORRELATION_ID,
    DURATION,
    EVENT_ID,
    JOB_ID,
    SOURCE_ID,
    START,
    THREAD_ID,
    text,
)
from tracelake.schemas.model import Table

TABLE = Table(
    name="raw.launch",
    grain="one row per host call",
    columns=(
        JOB_ID,
        SOURCE_ID,
        EVENT_ID,
        text("api_name", "Function that was called."),
        THREAD_ID,
        START,
        DURATION,
        CORRELATION_ID,
    ),
    key=("job_id", "source_id", "event_id"),
)
