"""Whether a job may be published, and what speaks against it."""

from tracelake.schemas.columns import JOB_ID, count, flag, text
from tracelake.schemas.model import Column, Table, Type

TABLE = Table(
    name="operations.publications",
    grain="one row per job that was checked",
    columns=(
        JOB_ID,
        flag("is_publishable", "Whether nothing stops its publication."),
        Column("reasons", Type.STRINGS, "What stops it, in words; empty where nothing does."),
        count("passed_count", "Checks that passed."),
        count("failed_count", "Checks that failed; row checks stop publication only by the share of rows that fail."),
        count("warned_count", "Checks that only warn, and did."),
        count("not_evaluated_count", "Checks that had nothing to evaluate and may have nothing."),
        count("error_count", "Checks that raised, and so have not passed."),
        text("run_id", "Run that checked."),
    ),
    key=("job_id",),
    cluster_by=("job_id",),
    may_be_empty=True,
)
