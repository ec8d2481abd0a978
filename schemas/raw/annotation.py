"""Ranges that the program named."""

from tracelake.schemas.columns import (
    EVENT_ID,
    JOB_ID,
    NOT_NEGATIVE,
    NOT_SENTINEL,
    SOURCE_ID,
    START,
    STREAM_ID,
    THREAD_ID,
    ns,
    number,
    text,
)
from tracelake.schemas.model import Table, one_of

TABLE = Table(
    name="raw.annotation",
    grain="one row per annotation",
    columns=(
        JOB_ID,
        SOURCE_ID,
        EVENT_ID,
        text("side", "Host range, or a tool's copy of it on a device.", checks=(one_of("host", "device"),)),
        text("text", "Name as the program gave it."),
        THREAD_ID,
        number("device_index", "Device of a device-side copy.", nullable=True),
        STREAM_ID,
        START,
        ns(
            "duration_ns",
            "Length of the range; NULL where it was never closed.",
            nullable=True,
            checks=(NOT_NEGATIVE, NOT_SENTINEL),
        ),
    ),
    key=("job_id", "source_id", "event_id"),
)
