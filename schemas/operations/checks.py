"""What each check of each table came to, for each job: the record of quality that pages show."""

from tracelake.schemas.columns import JOB_ID, count, text
from tracelake.schemas.model import Column, Table, Type, one_of

OUTCOMES = ("passed", "failed", "warned", "not_evaluated", "error")

TABLE = Table(
    name="operations.checks",
    grain="one row per job, table and check, and one more per window that breaks it",
    columns=(
        JOB_ID,
        text("table_name", "Table that was checked."),
        text("check_id", "The check; a row check is named as the reason that its rows have in quarantine."),
        text("source_id", "The window that the row is about; NULL for the job as a whole.", nullable=True),
        text(
            "kind",
            "What it is about: the table's rows, the share that fails, the key, an identity, or each row.",
            checks=(one_of("rows", "share", "key", "identity", "row"),),
        ),
        text("severity", "Whether it can stop a publication, or only warns.", checks=(one_of("fail", "warn"),)),
        text("outcome", "What became of it; error where it raised.", checks=(one_of(*OUTCOMES),)),
        Column(
            "measured",
            Type.DOUBLE,
            "The number that was compared: rows that break it, a share, or rows; NULL where nothing was evaluated.",
            nullable=True,
        ),
        Column("limit_min", Type.DOUBLE, "Least that passes; NULL without such a limit.", nullable=True),
        Column("limit_max", Type.DOUBLE, "Most that passes; NULL without such a limit.", nullable=True),
        count("row_count", "Rows in the table."),
        count("failing_count", "Rows that break it; NULL where that is not known.", nullable=True),
        text("reason", "Why it was not evaluated, or what it raised; NULL otherwise.", nullable=True),
        text("run_id", "Run that checked."),
    ),
    key=("job_id", "table_name", "check_id", "source_id"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
