"""Ledger of windows taken in: a window is in the tables when its row is here."""

from tracelake.schemas.columns import DAY, JOB_ID, SOURCE_ID, ns, number, size, text
from tracelake.schemas.model import Table, at_least, one_of

TABLE = Table(
    name="operations.files",
    grain="one row per job and source",
    columns=(
        DAY,
        JOB_ID,
        SOURCE_ID,
        text("manifest", "Manifest of the window, relative to the raw folder."),
        text("manifest_sha256", "Hash of the manifest that was taken in; a changed one is taken in again."),
        text("file", "Path of the foreign input; NULL for the recorder's own windows.", nullable=True),
        size("segment_bytes", "Size of the window's segments."),
        text(
            "status",
            "stored, quarantined, superseded, or expired: removed by retention, and never taken in again.",
            checks=(one_of("stored", "quarantined", "superseded", "expired"),),
        ),
        number("rows_read", "Rows found in the input.", checks=(at_least(0),)),
        number("rows_stored", "Rows stored in the event tables.", checks=(at_least(0),)),
        number("rows_quarantined", "Rows set aside.", checks=(at_least(0),)),
        number("rows_deduplicated", "Rows left out as exact copies.", checks=(at_least(0),)),
        number("rows_skipped", "Rows of kinds that the lake does not keep.", checks=(at_least(0),)),
        text("run_id", "Run that took it in."),
        ns("taken_ns", "When, Unix time."),
    ),
    key=("job_id", "source_id"),
    partition_by=("day",),
)
