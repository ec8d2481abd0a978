"""How well each window was recorded."""

from tracelake.schemas.columns import instant, ms, of
from tracelake.schemas.model import View
from tracelake.schemas.normalized.sources import TABLE as SOURCES

VIEW = View(
    name="v_windows",
    comment="Every recorded window: when, where, how whole the capture is, and what became of its rows.",
    reads=("normalized.sources",),
    columns=(
        *of(SOURCES, "day", "job_id", "attempt", "source_id", "node_id", "rank", "world_size", "format"),
        instant("started_utc", "Start of the window."),
        instant("ended_utc", "End of the window."),
        ms("window_ms", "Length of the window."),
        *of(SOURCES, "status", "status_reason", "capture", "capture_reason", "gpu_reason", "launch_coverage_ratio"),
        *of(SOURCES, "kernel_count", "producing_launch_count", "covered_launch_count", "orphan_count", "flags"),
        *of(SOURCES, "rows_read", "rows_stored", "rows_quarantined", "rows_deduplicated", "rows_skipped", "file"),
    ),
    sql="""
SELECT day, job_id, attempt, source_id, node_id, rank, world_size, format,
       timestamp_micros(window_start_ns DIV 1000) AS started_utc,
       timestamp_micros(window_end_ns DIV 1000) AS ended_utc,
       (window_end_ns - window_start_ns) / 1e6D AS window_ms, status, status_reason, capture, capture_reason,
       gpu_reason, launch_coverage_ratio, kernel_count, producing_launch_count, covered_launch_count,
       orphan_count, flags, rows_read, rows_stored, rows_quarantined, rows_deduplicated, rows_skipped, file
FROM sources
""",
)
