"""Windows without step markers: the period of their launches, and the steps that follow from it."""

from tracelake.schemas.columns import NOT_SENTINEL, WHERE, count, ns, number, ratio, text
from tracelake.schemas.model import Column, Identity, Table, Type, Unit, one_of
from tracelake.schemas.steps import NO_STEPS_REASONS

TABLE = Table(
    name="normalized.step_periods",
    grain="one row per window without step markers",
    reads=("raw.source", "raw.annotation", "raw.launch", "raw.kernel"),
    columns=(
        *WHERE,
        number(
            "thread_id", "Thread that launches the first kernel of the first step; NULL without steps.", nullable=True
        ),
        count("launch_count", "Launches that started a kernel, of the threads that were looked at."),
        count("period_launch_count", "Launches of the usual step; NULL where nothing repeats.", nullable=True),
        ratio("covered_ratio", "Share of those launches that lie in steps of about that many launches."),
        ratio(
            "agreement_ratio", "Share of launches of such steps that start the kernel of the same place a step before."
        ),
        count("step_count", "Inferred steps."),
        Column("starts_ns", Type.BIGINTS, "Start of the first launch of each step, Unix time.", Unit.NANOSECOND),
        ns("end_ns", "End of the last launch of the last step.", nullable=True, checks=(NOT_SENTINEL,)),
        text("reason", "Why there are no steps.", nullable=True, checks=(one_of(*NO_STEPS_REASONS),)),
    ),
    key=("job_id", "source_id"),
    partition_by=("day",),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(
        Identity("steps_or_reason", "(step_count = 0) = (reason IS NOT NULL)"),
        Identity("each_step_has_its_start", "size(starts_ns) = step_count"),
    ),
)
