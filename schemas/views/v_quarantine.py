"""What was set aside, with where it came from."""

from tracelake.schemas.columns import of
from tracelake.schemas.model import View
from tracelake.schemas.normalized.sources import TABLE as SOURCES
from tracelake.schemas.operations.quarantine import TABLE as QUARANTINE

VIEW = View(
    name="v_quarantine",
    comment="Every row or stretch of input that was set aside: which, why, what to do, and whose window it was.",
    reads=("operations.quarantine", "normalized.sources"),
    columns=(
        *of(QUARANTINE, "day", "job_id", "source_id"),
        *of(SOURCES, "attempt", "node_id", "rank", "status"),
        *of(QUARANTINE, "kind", "file", "offset_bytes", "length_bytes", "row_index", "rows_count", "reason", "remedy"),
        *of(QUARANTINE, "excerpt", "run_id"),
    ),
    sql="""
SELECT q.day, q.job_id, q.source_id, s.attempt, s.node_id, s.rank, s.status, q.kind, q.file, q.offset_bytes,
       q.length_bytes, q.row_index, q.rows_count, q.reason, q.remedy, q.excerpt, q.run_id
FROM quarantine q
LEFT JOIN sources s ON s.day = q.day AND s.job_id = q.job_id AND s.source_id = q.source_id
""",
)
