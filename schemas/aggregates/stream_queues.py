"""How far the host runs ahead of each stream: launches that wait in its queue."""

from tracelake.schemas.columns import (
    ATTEMPT,
    DEVICE_ID,
    JOB_ID,
    METRIC_VERSION,
    NODE_ID,
    RANK,
    STREAM_ID,
    count,
    duration,
    ratio,
)
from tracelake.schemas.model import Table

TABLE = Table(
    name="aggregates.stream_queues",
    grain="one row per attempt, device and stream with a launch that waited",
    reads=("normalized.sources", "normalized.kernels", "normalized.memops"),
    columns=(
        JOB_ID,
        ATTEMPT,
        NODE_ID,
        RANK,
        DEVICE_ID,
        STREAM_ID,
        count("launch_count", "Launches whose first event ran on the stream, not before them."),
        duration("window_ns", "Time of the windows that used the stream."),
        duration("queued_ns", "Time with at least one launch in the queue."),
        count("queue_p50_count", "Length of the queue that is not exceeded for half of the time."),
        count("queue_max_count", "Longest queue."),
        ratio("empty_ratio", "Share of the time without a launch in the queue."),
        ratio("full_ratio", "Share of the time with a full queue, which holds the host."),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "device_id", "stream_id"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
