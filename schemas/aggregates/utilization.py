"""Utilization over time, per device and node."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, NODE_ID, RANK, REASON, duration, ns, ratio, text
from tracelake.schemas.model import Table, one_of

METRICS = (
    "gpu_active_ratio",
    "kernel_busy_ratio",
    "compute_ratio",
    "exposed_comm_ratio",
    "gpu_util_sampled_ratio",
    "cpu_util_ratio",
)

TABLE = Table(
    name="aggregates.utilization",
    grain="one row per entity, metric and time bucket",
    reads=("normalized.sources", "normalized.samples", "aggregates.device_ledger"),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("source_id", "The window that the bucket lies in; NULL for nodes.", nullable=True),
        NODE_ID,
        RANK,
        text("entity_kind", "What is measured.", checks=(one_of("device", "node"),)),
        text("entity_id", "Which device or node."),
        text("metric", "What is shown.", checks=(one_of(*METRICS),)),
        ns("bucket_start_ns", "Start of the time bucket, Unix time."),
        duration("bucket_ns", "Length of the time bucket inside the window."),
        ratio("value_ratio", "The metric over the bucket."),
        ratio("coverage_ratio", "Share of the bucket's devices or samples that the value rests on."),
        REASON,
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "source_id", "node_id", "entity_kind", "entity_id", "metric", "bucket_start_ns"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
