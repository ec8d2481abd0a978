"""How far each window's clock is from the reference: what times of two ranks may be compared with."""

from tracelake.schemas.columns import (
    ATTEMPT,
    JOB_ID,
    METRIC_VERSION,
    NODE_ID,
    RANK,
    REASON,
    SOURCE_ID,
    count,
    duration,
    ns,
    text,
)
from tracelake.schemas.model import Column, Identity, Table, Type, one_of

TABLE = Table(
    name="aggregates.clock_alignment",
    grain="one row per window that is not superseded",
    reads=("normalized.sources", "aggregates.collective_waits"),
    columns=(
        JOB_ID,
        ATTEMPT,
        SOURCE_ID,
        NODE_ID,
        RANK,
        text("method", "How its clock was aligned.", checks=(one_of("collective_ends", "same_host", "none"),)),
        text("reference", "The clock that is right: the node of the lowest rank, or its window where no node is said."),
        ns("origin_ns", "Instant of its own clock at which the offset holds.", nullable=True),
        ns("offset_ns", "How far its clock is ahead there; NULL where not aligned.", nullable=True),
        Column("drift_ppm", Type.DOUBLE, "How much it gains; NULL where too few collectives tell.", nullable=True),
        duration(
            "residual_ns", "Median distance of the collectives' ends from that line; 0 on one host.", nullable=True
        ),
        count("matched_count", "Collectives that the alignment rests on."),
        REASON,
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "source_id"),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(
        Identity("aligned_or_reason", "(offset_ns IS NULL) = (reason IS NOT NULL)"),
        Identity("method_none_has_no_offset", "(method = 'none') = (offset_ns IS NULL)"),
    ),
)
