"""Framework operators on the host, kept for attribution and precision."""

from tracelake.schemas.columns import DURATION, EVENT_ID, JOB_ID, SOURCE_ID, START, THREAD_ID, text
from tracelake.schemas.model import Table

TABLE = Table(
    name="raw.operator",
    grain="one row per operator call",
    columns=(
        JOB_ID,
        SOURCE_ID,
        EVENT_ID,
        text("name", "Operator, such as aten::addmm."),
        THREAD_ID,
        START,
        DURATION,
        text("dtype", "Type of the first tensor argument.", nullable=True),
        text("shape", "Dimensions of the arguments as JSON.", nullable=True),
    ),
    key=("job_id", "source_id", "event_id"),
)
