"""Where the device time of each day went: parts that add up to what was allocated, in integer nanoseconds."""

from tracelake.schemas.aggregates.idle_causes import CAUSES as IDLE
from tracelake.schemas.columns import ATTEMPT, DAY, JOB_ID, METRIC_VERSION, NODE_ID, duration, text
from tracelake.schemas.model import Column, Table, Type, one_of

CAUSES = (
    "productive",
    "redone_steps",
    "initialization",
    "outside_steps",
    "checkpoint",
    "straggler_wait",
    "exposed_comm",
    "exposed_mem",
    *(cause for cause in IDLE if cause != "checkpoint"),
    "withheld",
    "not_recorded",
)

TABLE = Table(
    name="aggregates.fleet_daily",
    grain="one row per day, attempt, node and what its device time went to",
    reads=(
        "normalized.jobs",
        "normalized.sources",
        "normalized.annotations",
        "aggregates.device_ledger",
        "aggregates.idle_causes",
        "aggregates.step_ledger",
        "aggregates.step_times",
        "aggregates.stragglers",
        "aggregates.collective_waits",
        "aggregates.device_samples",
    ),
    columns=(
        DAY,
        JOB_ID,
        ATTEMPT,
        NODE_ID,
        text("project", "Project that the job belongs to.", nullable=True),
        text("user", "Owner of the job.", nullable=True),
        text("family", "Name of the job without its run suffix.", nullable=True),
        text("instance_type", "Machine types of the nodes, comma separated.", nullable=True),
        text("cause", "What the time went to: the first that applies.", checks=(one_of(*CAUSES),)),
        duration("device_ns", "Time, summed over devices; all rows of an attempt sum to devices times wall time."),
        Column("cost", Type.DOUBLE, "Its price, in conf's currency; NULL where conf names none.", nullable=True),
        Column("energy_kwh", Type.DOUBLE, "At the devices' mean power in kWh; NULL without samples.", nullable=True),
        METRIC_VERSION,
    ),
    key=("day", "job_id", "attempt", "node_id", "cause"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
