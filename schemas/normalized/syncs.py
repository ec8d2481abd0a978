"""Waits: blocking host calls and stream markers."""

from tracelake.schemas.columns import (
    DURATION,
    END,
    EVENT_ID,
    OPTIONAL_DEVICE_ID,
    START,
    STREAM_ID,
    THREAD_ID,
    WHERE,
    flag,
    text,
)
from tracelake.schemas.model import Table

TABLE = Table(
    name="normalized.syncs",
    grain="one row per wait",
    reads=("raw.source", "raw.sync"),
    columns=(
        *WHERE,
        EVENT_ID,
        OPTIONAL_DEVICE_ID,
        text("kind", "What is waited for."),
        flag("is_blocking", "Whether the host waits; false for markers between streams."),
        THREAD_ID,
        STREAM_ID,
        START,
        END,
        DURATION,
    ),
    key=("job_id", "source_id", "event_id"),
    partition_by=("day",),
    cluster_by=("job_id", "start_ns"),
    may_be_empty=True,
)
