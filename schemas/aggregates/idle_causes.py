"""Why each device was idle: causes that sum to the device ledger's idle, in integer nanoseconds."""

from tracelake.schemas.columns import (
    ATTEMPT,
    DEVICE_ID,
    JOB_ID,
    METRIC_VERSION,
    NODE_ID,
    RANK,
    duration,
    ns,
    number,
    text,
)
from tracelake.schemas.model import Table, one_of

CAUSES = (
    "data_loading",
    "synchronize",
    "copy",
    "compile",
    "checkpoint",
    "communication_host",
    "python_or_other",
    "launch_latency",
    "dependency",
    "queued",
    "unknown",
)

TABLE = Table(
    name="aggregates.idle_causes",
    grain="one row per device, scope (job, window, step or time bucket) and cause of idle time in it",
    reads=(
        "normalized.sources",
        "normalized.devices",
        "normalized.kernels",
        "normalized.memops",
        "normalized.launches",
        "normalized.syncs",
        "normalized.annotations",
        "aggregates.step_launches",
    ),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("source_id", "The window; NULL in scope job.", nullable=True),
        NODE_ID,
        RANK,
        DEVICE_ID,
        text("scope", "What the row is about.", checks=(one_of("job", "window", "step", "bucket"),)),
        text("step_name", "Name of the step; NULL outside scope step.", nullable=True),
        number(
            "step_occurrence", "Number of the step within its source and name; NULL outside scope step.", nullable=True
        ),
        ns("bucket_start_ns", "Start of the time bucket; NULL outside scope bucket.", nullable=True),
        text("cause", "What the device waited for.", checks=(one_of(*CAUSES),)),
        duration("idle_ns", "Idle time of that cause; the causes of a scope sum to its idle time."),
        METRIC_VERSION,
    ),
    key=(
        "job_id",
        "attempt",
        "source_id",
        "device_id",
        "scope",
        "step_name",
        "step_occurrence",
        "bucket_start_ns",
        "cause",
    ),
    cluster_by=("job_id",),
    may_be_empty=True,
)
