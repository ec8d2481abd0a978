"""Waits: blocking calls of the host and the markers that tools put on streams."""

from tracelake.schemas.columns import (
    CORRELATION_ID,
    DURATION,
    EVENT_ID,
    JOB_ID,
    SOURCE_ID,
    START,
    STREAM_ID,
    THREAD_ID,
    number,
    text,
)
from tracelake.schemas.model import Table

TABLE = Table(
    name="raw.sync",
    grain="one row per wait",
    columns=(
        JOB_ID,
        SOURCE_ID,
        EVENT_ID,
        text("kind", "What is waited for, such as stream_synchronize (a host call) or stream_wait_event (a marker)."),
        THREAD_ID,
        number("device_index", "Device of a marker; NULL for host calls.", nullable=True),
        STREAM_ID,
        START,
        DURATION,
        CORRELATION_ID,
    ),
    key=("job_id", "source_id", "event_id"),
)
