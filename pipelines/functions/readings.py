"""Samples inside the recorded windows, in the form that statistics can be made of."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.where import SOURCE_KEY

_SLOWED = 0x8 | 0x20 | 0x40 | 0x80
"""Bits of nvmlClocksEventReasons: hardware slowdown, software and hardware thermal slowdown, power brake."""
_CAPPED = 0x4
"""Software power cap."""


def readings(samples: DataFrame, sources: DataFrame) -> DataFrame:
    """Samples inside their window. Cores count for their node, whose mean is theirs; the bits of clock event reasons
    become two shares: `throttled_ratio` (heat, power brake) and `power_capped_ratio`.
    """
    bounds = sources.select(*SOURCE_KEY, "window_start_ns", "window_end_ns")
    inside = samples.join(F.broadcast(bounds), SOURCE_KEY).filter("at_ns >= window_start_ns AND at_ns < window_end_ns")
    is_core = F.col("entity_kind") == "core"
    placed = inside.withColumns(
        {
            "entity_id": F.when(is_core, F.coalesce("node_id", "source_id")).otherwise(F.col("entity_id")),
            "entity_kind": F.when(is_core, F.lit("node")).otherwise(F.col("entity_kind")),
        }
    )
    bits = F.col("value").cast("bigint")
    shares = F.array(
        *[
            F.struct(
                F.lit(name).alias("metric"),
                F.lit("ratio").alias("unit"),
                F.when(bits.isNotNull(), (bits.bitwiseAND(F.lit(mask)) != 0).cast("double")).alias("value"),
            )
            for name, mask in (("throttled_ratio", _SLOWED), ("power_capped_ratio", _CAPPED))
        ]
    )
    as_it_is = F.array(F.struct("metric", "unit", "value"))
    told = F.explode(F.when(F.col("metric") == "clock_event_reasons", shares).otherwise(as_it_is))
    kept = [name for name in placed.columns if name not in ("metric", "unit", "value")]
    return placed.select(*kept, told.alias("told")).select(*kept, "told.*")
