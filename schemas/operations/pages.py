"""Ledger of the pages that nights make: which run's tables each shows, so that the next night makes what is older."""

from tracelake.schemas.columns import ns, text
from tracelake.schemas.model import Table

TABLE = Table(
    name="operations.pages",
    grain="one row per page that a night made",
    columns=(
        text("page", "File name of the page in the reports folder."),
        text("job_id", "Job of the page; NULL for pages about many jobs.", nullable=True),
        text("shown_run_id", "Last run that had written what the page shows, read before the page was made."),
        ns("made_ns", "When it was made, Unix time."),
    ),
    key=("page",),
    may_be_empty=True,
)
"""A page that `tracelake report` makes is not here: the night makes it again, once."""
