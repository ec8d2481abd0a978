"""Host calls that start device work, with step and annotation by name."""

from tracelake.schemas.columns import number, of, text, us
from tracelake.schemas.model import View
from tracelake.schemas.normalized.launches import TABLE as LAUNCHES

VIEW = View(
    name="v_launches",
    comment="Every launch with its step and annotation by name. Filter by job_id: the event tables are large.",
    reads=("normalized.launches", "normalized.annotations"),
    columns=(
        *of(LAUNCHES, "day", "job_id", "attempt", "source_id", "node_id", "rank", "launch_id", "thread_id"),
        *of(LAUNCHES, "api_name", "start_ns", "end_ns", "duration_ns"),
        us("duration_us", "Length in microseconds."),
        us("launch_delay_us", "Start of its first device event minus its own start; NULL as in the table."),
        *of(LAUNCHES, "kernel_count", "memop_count", "step_name"),
        number("step_index", "Number in the step's text, a label only; NULL outside steps.", nullable=True),
        *of(LAUNCHES, "step_occurrence"),
        text("annotation", "Text of the innermost host annotation open at the launch.", nullable=True),
        *of(LAUNCHES, "flags"),
    ),
    sql="""
SELECT l.day, l.job_id, l.attempt, l.source_id, l.node_id, l.rank, l.launch_id, l.thread_id, l.api_name,
       l.start_ns, l.end_ns, l.duration_ns, l.duration_ns / 1e3D AS duration_us,
       l.launch_delay_ns / 1e3D AS launch_delay_us, l.kernel_count, l.memop_count, l.step_name,
       s.index AS step_index, l.step_occurrence, a.text AS annotation, l.flags
FROM launches l
LEFT JOIN annotations a
  ON a.day = l.day AND a.job_id = l.job_id AND a.source_id = l.source_id AND a.annotation_id = l.annotation_id
LEFT JOIN annotations s
  ON s.day = l.day AND s.job_id = l.job_id AND s.source_id = l.source_id AND s.is_step
 AND s.name = l.step_name AND s.step_occurrence = l.step_occurrence
""",
)
