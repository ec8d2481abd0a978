"""Annotations with the range around them."""

from tracelake.schemas.columns import ms, of, text
from tracelake.schemas.model import View
from tracelake.schemas.normalized.annotations import TABLE as ANNOTATIONS

VIEW = View(
    name="v_annotations",
    comment="Every annotation with the one around it, and its host and GPU time in milliseconds.",
    reads=("normalized.annotations",),
    columns=(
        *of(ANNOTATIONS, "day", "job_id", "attempt", "source_id", "node_id", "rank", "annotation_id", "side"),
        *of(ANNOTATIONS, "name", "index", "text"),
        text("parent_text", "Text of the annotation around it on its thread; NULL at the top.", nullable=True),
        *of(
            ANNOTATIONS,
            "depth",
            "thread_id",
            "is_step",
            "is_inferred",
            "step_occurrence",
            "start_ns",
            "end_ns",
            "duration_ns",
        ),
        ms("duration_ms", "Length in milliseconds; NULL where never closed."),
        ms("gpu_time_ms", "Device time of what it and the ranges inside it launched."),
        ms("gpu_exclusive_ms", "Device time of what it launched outside the ranges inside it."),
        *of(ANNOTATIONS, "is_closed", "flags"),
    ),
    sql="""
SELECT a.day, a.job_id, a.attempt, a.source_id, a.node_id, a.rank, a.annotation_id, a.side, a.name, a.index,
       a.text, p.text AS parent_text, a.depth, a.thread_id, a.is_step, a.is_inferred, a.step_occurrence,
       a.start_ns, a.end_ns, a.duration_ns, a.duration_ns / 1e6D AS duration_ms, a.gpu_time_ns / 1e6D AS gpu_time_ms,
       a.gpu_exclusive_ns / 1e6D AS gpu_exclusive_ms, a.is_closed, a.flags
FROM annotations a
LEFT JOIN annotations p
  ON p.day = a.day AND p.job_id = a.job_id AND p.source_id = a.source_id AND p.annotation_id = a.parent_id
""",
)
