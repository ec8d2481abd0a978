"""Kernels with the names that people know them by."""

from tracelake.schemas.columns import number, of, text, us
from tracelake.schemas.model import View
from tracelake.schemas.normalized.kernels import TABLE as KERNELS

VIEW = View(
    name="v_kernels",
    comment="Every kernel with its device, step and annotation by name. Filter by job_id: the event tables are large.",
    reads=("normalized.kernels", "normalized.devices", "normalized.annotations"),
    columns=(
        *of(KERNELS, "day", "job_id", "attempt", "source_id", "node_id", "rank", "event_id", "device_id"),
        text("device_name", "Product name of the device.", nullable=True),
        number("device_index", "Index of the device as the process sees it.", nullable=True),
        *of(KERNELS, "stream_id", "name", "short_name", "kernel_class", "precision", "is_tensor_core"),
        *of(KERNELS, "start_ns", "end_ns", "duration_ns"),
        us("duration_us", "Length in microseconds."),
        us("launch_delay_us", "First event's start minus launch start, as launch_delay_ns of the table."),
        us("queue_delay_us", "Start minus launch end, as queue_delay_ns of the table."),
        *of(KERNELS, "step_name"),
        number("step_index", "Number in the step's text, a label only; NULL outside steps.", nullable=True),
        *of(KERNELS, "step_occurrence"),
        text("annotation", "Text of the innermost host annotation open at the launch.", nullable=True),
        *of(KERNELS, "operator_name", "launch_id", "flags"),
    ),
    sql="""
SELECT k.day, k.job_id, k.attempt, k.source_id, k.node_id, k.rank, k.event_id, k.device_id,
       d.name AS device_name, d.device_index, k.stream_id, k.name, k.short_name, k.kernel_class, k.precision,
       k.is_tensor_core, k.start_ns, k.end_ns, k.duration_ns, k.duration_ns / 1e3D AS duration_us,
       k.launch_delay_ns / 1e3D AS launch_delay_us, k.queue_delay_ns / 1e3D AS queue_delay_us, k.step_name,
       s.index AS step_index, k.step_occurrence, a.text AS annotation, k.operator_name, k.launch_id, k.flags
FROM kernels k
LEFT JOIN devices d
  ON d.day = k.day AND d.job_id = k.job_id AND d.source_id = k.source_id AND d.device_id = k.device_id
LEFT JOIN annotations a
  ON a.day = k.day AND a.job_id = k.job_id AND a.source_id = k.source_id AND a.annotation_id = k.annotation_id
LEFT JOIN annotations s
  ON s.day = k.day AND s.job_id = k.job_id AND s.source_id = k.source_id AND s.is_step
 AND s.name = k.step_name AND s.step_occurrence = k.step_occurrence
""",
)
