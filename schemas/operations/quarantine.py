"""Rows and files set aside, each with its place, the reason and the remedy."""

from tracelake.schemas.columns import DAY, JOB_ID, SOURCE_ID, count, number, size, text
from tracelake.schemas.model import Table

TABLE = Table(
    name="operations.quarantine",
    grain="one row per row or stretch set aside",
    columns=(
        DAY,
        JOB_ID,
        SOURCE_ID,
        text("kind", "Raw kind of the row; loss for a stretch of input that could not be read."),
        text("file", "Input or segment that the row is in."),
        size("offset_bytes", "First byte in the uncompressed input; NULL where only the row is known.", nullable=True),
        size("length_bytes", "Length of the stretch.", nullable=True),
        number("row_index", "Number of the row in the file, from 0.", nullable=True),
        count("rows_count", "Rows lost here; NULL where a damaged stretch hides their number.", nullable=True),
        text("reason", "Code that says what is wrong."),
        text("remedy", "What the reader can do."),
        text("excerpt", "The row or the start of the bytes, escaped."),
        text("run_id", "Run that set it aside."),
    ),
    key=("job_id", "source_id", "kind", "file", "offset_bytes", "row_index", "reason"),
    partition_by=("day",),
    may_be_empty=True,
)
