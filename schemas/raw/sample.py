"""Readings of resource metrics, in long form: a new metric needs no new column."""

from tracelake.schemas.columns import JOB_ID, SOURCE_ID, ns, text
from tracelake.schemas.model import Column, Table, Type

TABLE = Table(
    name="raw.sample",
    grain="one row per reading",
    columns=(
        JOB_ID,
        SOURCE_ID,
        ns("at_ns", "Instant of the reading, Unix time."),
        ns("monotonic_ns", "The node's monotonic clock at the reading; it orders the rows."),
        text("entity_kind", "node, core, process, device, disk or nic."),
        text("entity_id", "Which one: a UUID, an index or a name."),
        text("metric", "What was read."),
        text("unit", "Unit of the value."),
        Column("value", Type.DOUBLE, "The reading; NULL where it failed.", nullable=True),
        Column("is_valid", Type.BOOLEAN, "Whether the reading succeeded."),
        text("reason", "Why a reading is not valid.", nullable=True),
    ),
    key=("job_id", "source_id", "monotonic_ns", "entity_kind", "entity_id", "metric"),
)
