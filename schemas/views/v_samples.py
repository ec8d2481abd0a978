"""Readings with the device that they are of."""

from tracelake.schemas.columns import instant, number, of, text
from tracelake.schemas.model import View
from tracelake.schemas.normalized.samples import TABLE as SAMPLES

VIEW = View(
    name="v_samples",
    comment="Every reading of a resource metric, one row each; those of devices with the device's name.",
    reads=("normalized.samples", "normalized.devices"),
    columns=(
        *of(SAMPLES, "day", "job_id", "attempt", "source_id", "node_id", "rank"),
        instant("at_utc", "Instant of the reading."),
        *of(SAMPLES, "at_ns", "entity_kind", "entity_id"),
        text("device_name", "Product name of the device; NULL for other entities.", nullable=True),
        number("device_index", "Index of the device as the process sees it; NULL for other entities.", nullable=True),
        *of(SAMPLES, "metric", "unit", "value", "is_valid", "reason"),
    ),
    sql="""
SELECT s.day, s.job_id, s.attempt, s.source_id, s.node_id, s.rank,
       timestamp_micros(s.at_ns DIV 1000) AS at_utc, s.at_ns, s.entity_kind, s.entity_id,
       d.name AS device_name, d.device_index, s.metric, s.unit, s.value, s.is_valid, s.reason
FROM samples s
LEFT JOIN devices d
  ON d.day = s.day AND d.job_id = s.job_id AND d.source_id = s.source_id
 AND s.entity_kind = 'device' AND d.device_id = s.entity_id
""",
)
