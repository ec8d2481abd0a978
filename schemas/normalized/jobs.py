"""Training jobs: who ran what, where, with which settings, and how it ended."""

from tracelake.schemas.columns import JOB_ID, count, ns, text
from tracelake.schemas.model import Column, Table, Type, one_of

STATES = ("in_progress", "completed", "failed", "stopping", "stopped", "unknown")

TABLE = Table(
    name="normalized.jobs",
    grain="one row per job",
    reads=("raw.source",),
    columns=(
        JOB_ID,
        text("state", "State of the latest attempt; unknown for imports.", checks=(one_of(*STATES),)),
        ns("created_ns", "First instant that any window of the job covers.", nullable=True),
        ns("ended_ns", "Last instant of a job that has ended; NULL while it runs.", nullable=True),
        Column("exit_code", Type.INT, "Exit code of the latest attempt.", nullable=True),
        count("attempt_count", "Attempts seen."),
        text("project", "Project that the job belongs to.", nullable=True),
        text("user", "Owner of the job.", nullable=True),
        text("family", "Name of the job without its run suffix.", nullable=True),
        text("framework", "Training framework and version.", nullable=True),
        Column("world_size", Type.INT, "Ranks that the latest attempt should have; NULL where unknown.", nullable=True),
        text("instance_type", "Machine types of the nodes, comma separated.", nullable=True),
        text("cloud_account", "Cloud account that pays for the nodes.", nullable=True),
        text("cloud_region", "Cloud region of the nodes.", nullable=True),
        Column("instance_ids", Type.STRINGS, "Cloud ids of the nodes."),
        Column("nodes", Type.STRINGS, "Host names of the nodes."),
        text("cloud_job_id", "Id of the job in the cloud or cluster scheduler.", nullable=True),
        text("format", "What wrote the events."),
        Column("hyperparameters", Type.MAP, "Hyperparameters as text."),
        Column("tags", Type.MAP, "Tags, among them the run ids of experiment trackers."),
    ),
    key=("job_id",),
)
