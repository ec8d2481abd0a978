"""What holds each step, and on which rank."""

from tracelake.schemas.aggregates.critical_path import TABLE as PATH
from tracelake.schemas.columns import RANK, count, ms, of, ratio, text
from tracelake.schemas.model import Column, View

_CLASSES = ("compute", "exposed_comm", "memcpy", "memset", "runtime", "data_loading", "host_work", "other")
_STEP = "job_id, attempt, step_name, step_occurrence"

VIEW = View(
    name="v_critical_path",
    comment="The critical path of each step over all ranks: its length, its classes, and the rank with most of it.",
    reads=("aggregates.critical_path",),
    columns=(
        *of(PATH, "job_id", "attempt", "step_name", "step_occurrence"),
        count("segment_count", "Segments of the path."),
        ms("duration_ms", "Length of the path; NULL without one."),
        *[ratio(f"{name}_ratio", f"Share of {name} in the path, where classes are known.") for name in _CLASSES],
        text("bound_by", "The class with the largest share; NULL where classes are not known.", nullable=True),
        Column("critical_rank", RANK.type, "The rank with most time on the path.", nullable=True),
        ratio("critical_rank_ratio", "Share of that rank in the path."),
        text("reason", "Why there is no path, or no classes of part of it.", nullable=True),
    ),
    sql=f"""
WITH ranks AS (
  SELECT {_STEP}, rank, count(source_id) AS segments, sum(duration_ns) AS ns, max(reason) AS reason,
         {", ".join(f"sum({name}_ns) AS {name}" for name in _CLASSES)}
  FROM critical_path GROUP BY {_STEP}, rank
),
steps AS (
  SELECT {_STEP}, sum(segments) AS segments, sum(ns) AS ns, max(reason) AS reason,
         max_by(rank, struct(ns, -rank)) AS critical_rank, max(ns) AS most_ns,
         {", ".join(f"sum({name}) AS {name}" for name in _CLASSES)},
         {" + ".join(f"coalesce(sum({name}), 0)" for name in _CLASSES)} AS known_ns,
         array_max(array({", ".join(f"struct(sum({name}) AS ns, '{name}' AS name)" for name in _CLASSES)})) AS largest
  FROM ranks GROUP BY {_STEP}
)
SELECT {_STEP}, segments AS segment_count, ns / 1e6D AS duration_ms,
       {", ".join(f"{name} / CAST(nullif(known_ns, 0) AS DOUBLE) AS {name}_ratio" for name in _CLASSES)},
       CASE WHEN largest.ns IS NOT NULL THEN largest.name END AS bound_by, critical_rank,
       most_ns / CAST(nullif(ns, 0) AS DOUBLE) AS critical_rank_ratio, reason
FROM steps
""",
)
