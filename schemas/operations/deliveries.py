"""What was told of each job to each experiment tracker: what was delivered is not sent again, what failed is."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, count, ns, text
from tracelake.schemas.model import Table, one_of

TABLE = Table(
    name="operations.deliveries",
    grain="one row per job and target, about the last try",
    columns=(
        JOB_ID,
        ATTEMPT,
        text("target", "Where links and figures go.", checks=(one_of("mlflow", "wandb", "webhook"),)),
        text("reference", "The run of the tracker; NULL where the job has none there.", nullable=True),
        text("url", "Address of the page that was told."),
        text("digest", "Hash of all that was told, and where to; the same is not delivered again."),
        text(
            "state",
            "delivered, failed: tried again, or nothing_to_do: the tracker has no such run.",
            checks=(one_of("delivered", "failed", "nothing_to_do"),),
        ),
        text("reason", "Why it was not delivered; NULL where it was.", nullable=True),
        count("try_count", "Tries in a row up to the last one, since the last success."),
        ns("tried_ns", "When it was tried last, Unix time."),
        ns("delivered_ns", "When something was delivered last, Unix time; NULL where nothing was yet.", nullable=True),
        text("run_id", "Run whose figures were told."),
    ),
    key=("job_id", "target"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
