"""NVML over the stand-in, tick by tick, under a clock of our own."""

from __future__ import annotations

from tracelake.recorder.samplers import Reading
from tracelake.recorder.samplers.nvml import Nvml

# Return codes of NVML.
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, TIMEOUT, GPU_IS_LOST, UNKNOWN = 3, 4, 9, 10, 15, 999
SECOND_NS = 1_000_000_000


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * SECOND_NS

    def __call__(self) -> int:
        return self.now_ns


def run(sampler: Nvml, clock: Clock, ticks: int, tick_ns: int = SECOND_NS // 2) -> list[Reading]:
    rows = []
    for _ in range(ticks):
        rows += sampler.sample()
        clock.now_ns += tick_ns
    return rows


def only(rows: list[Reading], metric: str, uuid: str | None = None) -> list[Reading]:
    return [row for row in rows if row.metric == metric and uuid in (None, row.entity_id)]


def valid(rows: list[Reading]) -> list[float]:
    assert all((row.value is None) == (not row.is_valid) == (row.reason is not None) for row in rows)
    return [row.value for row in rows if row.value is not None]
