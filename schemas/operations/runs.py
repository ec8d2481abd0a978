"""One row per run of the pipeline, written when it ends, however it ends."""

from tracelake.schemas.columns import count, ns, text
from tracelake.schemas.model import Column, Table, Type, one_of

TABLE = Table(
    name="operations.runs",
    grain="one row per run",
    columns=(
        text("run_id", "Id of the run: a sortable time and a random part."),
        text("command", "Command that started it."),
        text("status", "How it ended.", checks=(one_of("succeeded", "incomplete", "failed"),)),
        text("error", "Why it failed, or what could not be used; NULL where all went well.", nullable=True),
        ns("started_ns", "When it started, Unix time."),
        ns("ended_ns", "When it ended, Unix time."),
        Column("jobs", Type.STRINGS, "Jobs that it touched."),
        count("source_count", "Windows that it took in."),
        count("rows_read_count", "Rows found in the inputs."),
        count("rows_stored_count", "Rows stored in the event tables."),
        count("rows_quarantined_count", "Rows set aside."),
        count("rows_deduplicated_count", "Rows left out as exact copies."),
        count("rows_skipped_count", "Rows of kinds that the lake does not keep."),
        Column("seconds", Type.MAP, "Seconds by stage, as text."),
        Column("checks", Type.MAP, "Checks by result, as text."),
        Column("versions", Type.MAP, "Versions of the program, Spark, Delta and the definitions."),
    ),
    key=("run_id",),
)
