"""Host ranges that the program named, with their nesting and the steps among them: what attribution rests on."""

from tracelake.schemas.columns import (
    FLAGS,
    IS_INFERRED,
    NOT_SENTINEL,
    START,
    THREAD_ID,
    WHERE,
    duration,
    flag,
    ns,
    number,
    text,
)
from tracelake.schemas.model import Column, Table, Type

TABLE = Table(
    name="normalized.ranges",
    grain="one row per host annotation or inferred step",
    reads=("raw.source", "raw.annotation", "normalized.step_periods"),
    columns=(
        *WHERE,
        number("annotation_id", "Number of the annotation within its source; below 0 for inferred steps."),
        number("parent_id", "The annotation around it on its thread; NULL at the top.", nullable=True),
        text("name", "Text without a trailing number and its separator."),
        number("index", "That trailing number; NULL without one.", nullable=True),
        text("text", "Text as the program gave it."),
        THREAD_ID,
        Column("depth", Type.INT, "Nesting depth on its thread, from 0; inferred steps take no part in it."),
        START,
        ns("end_ns", "End, Unix time; NULL where never closed.", nullable=True, checks=(NOT_SENTINEL,)),
        duration("duration_ns", "Length; NULL where never closed.", nullable=True),
        flag("is_closed", "Whether its end was recorded."),
        flag("is_step", "Whether it is a training step."),
        number(
            "step_occurrence",
            "Number of the step within its source and name, from 0; NULL for others.",
            nullable=True,
        ),
        IS_INFERRED,
        FLAGS,
    ),
    key=("job_id", "source_id", "annotation_id"),
    partition_by=("day",),
    cluster_by=("job_id", "start_ns"),
    may_be_empty=True,
)
