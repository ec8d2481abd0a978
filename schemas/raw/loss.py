"""What could not be kept: rows set aside and stretches of damaged input."""

from tracelake.schemas.columns import JOB_ID, SOURCE_ID, count, number, size, text
from tracelake.schemas.model import Table

TABLE = Table(
    name="raw.loss",
    grain="one row per row or stretch that was not stored",
    columns=(
        JOB_ID,
        SOURCE_ID,
        text("file", "Input that the loss is in."),
        size("offset_bytes", "First byte of the loss in the uncompressed input; NULL where unknown.", nullable=True),
        size("length_bytes", "Length of the loss.", nullable=True),
        number("row_index", "Number of the row in the input, from 0.", nullable=True),
        count("rows_count", "Rows lost here; NULL where a damaged stretch hides their number.", nullable=True),
        text("reason", "Code that says what is wrong."),
        text("remedy", "What the reader can do."),
        text("excerpt", "The start of the bytes, escaped."),
    ),
    key=("job_id", "source_id", "file", "offset_bytes", "row_index"),
)
