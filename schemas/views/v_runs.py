"""What the pipeline did."""

from tracelake.schemas.columns import instant, ms, of
from tracelake.schemas.model import View
from tracelake.schemas.operations.runs import TABLE as RUNS

VIEW = View(
    name="v_runs",
    comment="Every run of the pipeline: when, how long, how many rows, and how it ended.",
    reads=("operations.runs",),
    columns=(
        *of(RUNS, "run_id", "command", "status", "error"),
        instant("started_utc", "When it started."),
        ms("duration_ms", "How long it took."),
        *of(RUNS, "jobs", "source_count", "rows_read_count", "rows_stored_count", "rows_quarantined_count"),
        *of(RUNS, "rows_deduplicated_count", "rows_skipped_count", "checks", "seconds", "versions"),
    ),
    sql="""
SELECT run_id, command, status, error, timestamp_micros(started_ns DIV 1000) AS started_utc,
       (ended_ns - started_ns) / 1e6D AS duration_ms, jobs, source_count, rows_read_count, rows_stored_count,
       rows_quarantined_count, rows_deduplicated_count, rows_skipped_count, checks, seconds, versions
FROM runs
""",
)
