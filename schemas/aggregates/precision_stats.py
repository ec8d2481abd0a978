"""Kernel time by class, precision and what the precision rests on."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, count, duration, flag, text
from tracelake.schemas.model import Column, Identity, Table, Type

TABLE = Table(
    name="aggregates.precision_stats",
    grain="one row per kernel class, precision, evidence and use of tensor cores",
    reads=("normalized.kernels", "normalized.operators"),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("kernel_class", "What kind of work the kernels do."),
        text("precision", "Input type of the math."),
        text("precision_source", "What the precision rests on."),
        flag("is_tensor_core", "Whether the kernels use tensor or matrix cores."),
        count("kernel_count", "Executions."),
        duration("duration_sum_ns", "Sum of durations; overlaps count twice."),
        duration(
            "fp32_product_ns",
            "Of it, fp32 products outside tensor cores, which could run in a shorter type; NULL in older rows.",
            nullable=True,
        ),
        duration(
            "flops_known_ns", "Of it, products whose operator tells their shapes; NULL in older rows.", nullable=True
        ),
        Column("flops", Type.DOUBLE, "Floating-point operations of those; NULL without any.", nullable=True),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "kernel_class", "precision", "precision_source", "is_tensor_core"),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(
        Identity("fp32_products_are_of_the_time", "fp32_product_ns <= duration_sum_ns"),
        Identity("known_flops_are_of_the_time", "flops_known_ns <= duration_sum_ns"),
        Identity("known_time_has_flops", "flops_known_ns = 0 OR flops IS NOT NULL"),
    ),
)
