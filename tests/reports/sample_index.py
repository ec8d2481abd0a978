"""Jobs for the index: one an hour, back in time, of every state; the third has a name that nobody would give."""

from __future__ import annotations

from tracelake.reports.index import STRETCHES, IndexJob
from tracelake.reports.words import STATES

NEWEST_NS = 1_795_910_400_000_000_000  # 2026-11-29 00:00 UTC
HOUR_NS = 3_600_000_000_000
HOSTILE = "<img src=x onerror=alert(1)>"


def jobs(count: int) -> tuple[IndexJob, ...]:
    return tuple(map(_job, range(count)))


def _job(number: int) -> IndexJob:
    created = NEWEST_NS - number * HOUR_NS
    is_known = number % 7 != 6
    return IndexJob(
        job_id=HOSTILE if number == 2 else f"run-{number:05d}",
        state=list(STATES)[number % len(STATES)],
        project=("llm", "vision", "rec")[number % 3],
        family=f"family-{number % 5}",
        user="a.ito",
        created_ns=created,
        ended_ns=created + (number % 9 + 1) * HOUR_NS // 2,
        device_count=8,
        device_name="NVIDIA H100 80GB HBM3",
        gpu_active_ratio=(number * 37 % 100) / 100 if is_known else None,
        wasted_ns=number * 10**12 if is_known else None,
        high_count=number % 2,
        medium_count=number % 3,
        levels={n: (n * 7 + number) % 10 / 10 for n in range(STRETCHES) if n != 5} if is_known else {},
    )
