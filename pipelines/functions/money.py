"""Prices of device time, as conf has them."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tracelake.pipelines.parameters import Parameters

HOUR_NS = 3_600_000_000_000


def price(device_ns: str, parameters: Parameters) -> Column:
    """Price of that much device time on `instance_type`; NULL where conf names none."""
    pairs = [F.lit(each) for pair in parameters.gpu_hour_prices.items() for each in pair]
    of_an_hour = F.create_map(*pairs)[F.col("instance_type")] if pairs else F.lit(None).cast("double")
    return F.col(device_ns) / HOUR_NS * of_an_hour
