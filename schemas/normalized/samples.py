"""Readings of resource metrics, in long form."""

from tracelake.schemas.columns import WHERE, ns, text
from tracelake.schemas.model import Column, Table, Type, one_of

TABLE = Table(
    name="normalized.samples",
    grain="one row per reading",
    reads=("raw.source", "raw.sample"),
    columns=(
        *WHERE,
        ns("at_ns", "Instant of the reading, Unix time."),
        ns("monotonic_ns", "The node's monotonic clock at the reading; it orders the rows."),
        text("entity_kind", "What was read.", checks=(one_of("node", "core", "process", "device", "disk", "nic"),)),
        text("entity_id", "Which one: a UUID, an index or a name."),
        text("metric", "Metric that was read."),
        text("unit", "Unit of the value."),
        Column("value", Type.DOUBLE, "The reading; NULL where it failed.", nullable=True),
        Column("is_valid", Type.BOOLEAN, "Whether the reading succeeded."),
        text("reason", "Why a reading is not valid.", nullable=True),
    ),
    key=("job_id", "source_id", "monotonic_ns", "entity_kind", "entity_id", "metric"),
    partition_by=("day",),
    cluster_by=("job_id", "at_ns"),
    may_be_empty=True,
)
