"""Ranges that the program named, with their nesting."""

from tracelake.schemas.columns import (
    FLAGS,
    IS_INFERRED,
    NOT_SENTINEL,
    OPTIONAL_DEVICE_ID,
    START,
    THREAD_ID,
    WHERE,
    duration,
    flag,
    ns,
    number,
    text,
)
from tracelake.schemas.model import Column, Table, Type, one_of

TABLE = Table(
    name="normalized.annotations",
    grain="one row per annotation or inferred step",
    reads=("raw.source", "raw.annotation", "normalized.ranges", "normalized.kernels", "normalized.memops"),
    columns=(
        *WHERE,
        number("annotation_id", "Number of the annotation within its source; below 0 for inferred steps."),
        number("parent_id", "The annotation around it on its thread; NULL at the top.", nullable=True),
        text("side", "Host range, or a tool's copy of it on a device.", checks=(one_of("host", "device"),)),
        text("name", "Text without a trailing number and its separator."),
        number("index", "That trailing number; NULL without one.", nullable=True),
        text("text", "Text as the program gave it."),
        THREAD_ID,
        OPTIONAL_DEVICE_ID,
        Column("depth", Type.INT, "Nesting depth on its thread, from 0; NULL on a device.", nullable=True),
        START,
        ns("end_ns", "End, Unix time; NULL where never closed.", nullable=True, checks=(NOT_SENTINEL,)),
        duration("duration_ns", "Length; NULL where never closed.", nullable=True),
        flag("is_closed", "Whether its end was recorded."),
        flag("is_step", "Whether it is a training step."),
        number(
            "step_occurrence", "Number of the step within its source and name, from 0; NULL for others.", nullable=True
        ),
        duration(
            "gpu_exclusive_ns",
            "Union per device of events whose launch has it innermost, summed; NULL without device events.",
            nullable=True,
        ),
        duration("gpu_time_ns", "The same with the ranges inside it.", nullable=True),
        duration("gpu_span_ns", "First start to last end of those events; NULL without any.", nullable=True),
        IS_INFERRED,
        FLAGS,
    ),
    key=("job_id", "source_id", "annotation_id"),
    partition_by=("day",),
    cluster_by=("job_id", "start_ns"),
    may_be_empty=True,
)
