"""Copies and fills on a device."""

from tracelake.schemas.columns import (
    CORRELATION_ID,
    DURATION,
    EVENT_ID,
    JOB_ID,
    SOURCE_ID,
    START,
    STREAM_ID,
    number,
    size,
    text,
)
from tracelake.schemas.model import Table, one_of

TABLE = Table(
    name="raw.memop",
    grain="one row per copy or fill",
    columns=(
        JOB_ID,
        SOURCE_ID,
        EVENT_ID,
        text("kind", "Copy or fill.", checks=(one_of("memcpy", "memset"),)),
        text("direction", "htod, dtoh, dtod, ptop or htoh; NULL for fills.", nullable=True),
        text("memory_kind", "Kind of host memory: pageable or pinned; NULL where not said.", nullable=True),
        size("bytes", "Bytes moved or filled; NULL where not said.", nullable=True),
        START,
        DURATION,
        number("device_index", "Index of the device as the process sees it.", nullable=True),
        STREAM_ID,
        CORRELATION_ID,
    ),
    key=("job_id", "source_id", "event_id"),
)
