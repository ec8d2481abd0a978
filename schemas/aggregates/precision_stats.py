"""Kernel time by class, precision and what the precision rests on."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, count, duration, flag, text
from tracelake.schemas.model import Table

TABLE = Table(
    name="aggregates.precision_stats",
    grain="one row per kernel class, precision, evidence and use of tensor cores",
    reads=("normalized.kernels",),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("kernel_class", "What kind of work the kernels do."),
        text("precision", "Input type of the math."),
        text("precision_source", "What the precision rests on."),
        flag("is_tensor_core", "Whether the kernels use tensor or matrix cores."),
        count("kernel_count", "Executions."),
        duration("duration_sum_ns", "Sum of durations; overlaps count twice."),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "kernel_class", "precision", "precision_source", "is_tensor_core"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
