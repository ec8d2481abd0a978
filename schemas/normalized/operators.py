"""Operators that launched device work."""

from tracelake.schemas.columns import DURATION, END, START, THREAD_ID, WHERE, number, text
from tracelake.schemas.model import Table

TABLE = Table(
    name="normalized.operators",
    grain="one row per operator call that is the innermost one at a launch",
    reads=("raw.source", "raw.operator", "normalized.launches"),
    columns=(
        *WHERE,
        number("operator_id", "Number of the operator within its source."),
        number("launch_id", "The launch that it is the innermost operator of."),
        text("name", "Operator, such as aten::addmm."),
        text("dtype", "Type of the first tensor argument.", nullable=True),
        text("shape", "Dimensions of the arguments as JSON.", nullable=True),
        THREAD_ID,
        START,
        END,
        DURATION,
    ),
    key=("job_id", "source_id", "launch_id"),
    partition_by=("day",),
    cluster_by=("job_id", "start_ns"),
    may_be_empty=True,
)
