"""Recorded windows: which process, when, how complete, and every row accounted for."""

from tracelake.schemas.columns import WHERE, count, ns, number, ratio, size, text
from tracelake.schemas.model import Column, Identity, Share, Table, Type, at_least, one_of

STATUSES = ("running", "complete", "incomplete", "degraded", "interrupted", "superseded")

TABLE = Table(
    name="normalized.sources",
    grain="one row per recorded window of one process",
    reads=(
        "raw.source",
        "normalized.kernels",
        "normalized.memops",
        "normalized.launches",
        "normalized.ranges",
        "operations.quarantine",
    ),
    columns=(
        *WHERE,
        text("format", "What wrote the events."),
        Column("world_size", Type.INT, "Number of ranks of the job; NULL where unknown.", nullable=True),
        number("process_id", "Process id on its node.", nullable=True),
        text("process_name", "Program name of the process.", nullable=True),
        text("status", "How complete the window is.", checks=(one_of(*STATUSES),)),
        text("status_reason", "Code that says why the status is not complete.", nullable=True),
        text("capture", "Tool that recorded device events: cupti, kineto, none; NULL for imports.", nullable=True),
        text("capture_reason", "Why the recorder had no device events, as code and text.", nullable=True),
        text("gpu_reason", "Code that says why device numbers of the window are withheld.", nullable=True),
        ns("window_start_ns", "Start of the recorded window.", nullable=True),
        ns("window_end_ns", "End of the recorded window; a cut capture ends at its last device event.", nullable=True),
        text("previous_source_id", "The window of the same process before this one.", nullable=True),
        ns("clock_offset_ns", "Offset of the node's clock; NULL until aligned.", nullable=True),
        ns("clock_residual_ns", "Residual of that alignment.", nullable=True),
        ns(
            "device_clock_offset_ns",
            "Smallest shift that mends kernels before their launch; never applied.",
            nullable=True,
        ),
        count("kernel_count", "Kernels stored."),
        count("producing_launch_count", "Launches that should produce a kernel, outside stream capture."),
        count("covered_launch_count", "Those of them with at least one kernel."),
        ratio("launch_coverage_ratio", "covered_launch_count over producing_launch_count; NULL without launches."),
        count("orphan_count", "Device events without a launch."),
        Column("flags", Type.STRINGS, "Reason codes about the window, such as rank_missing."),
        number("rows_read", "Rows found in the input.", checks=(at_least(0),)),
        number("rows_stored", "Rows stored in the event tables.", checks=(at_least(0),)),
        number("rows_quarantined", "Rows set aside, on reading or by a check.", checks=(at_least(0),)),
        number("rows_deduplicated", "Rows left out as exact copies.", checks=(at_least(0),)),
        number("rows_skipped", "Rows of kinds that the lake does not keep.", checks=(at_least(0),)),
        text("file", "Path of the input; NULL for the recorder's own windows.", nullable=True),
        text("file_sha256", "SHA-256 of the input's uncompressed bytes.", nullable=True),
        size("read_bytes", "Length of the input that the window rests on.", nullable=True),
    ),
    key=("job_id", "source_id"),
    partition_by=("day",),
    identities=(
        Identity(
            "every_row_is_accounted_for",
            "rows_read = rows_stored + rows_quarantined + rows_deduplicated + rows_skipped",
        ),
        Identity("covered_launches_are_launches", "covered_launch_count <= producing_launch_count"),
    ),
    shares=(Share("set_aside", "rows_quarantined", "rows_read"),),
)
