"""A day of an invented fleet: four jobs, one of which nobody would call by such a name."""

from __future__ import annotations

import sample_parts as part

from tracelake.reports.fleet_data import FleetData
from tracelake.reports.fleet_rows import (
    CauseTime,
    Change,
    DayTime,
    GroupTime,
    Overview,
    Saving,
    SuspectNode,
)
from tracelake.reports.goodput_rows import FleetGoodput
from tracelake.reports.read_fleet import GROUPS

HOUR = 3_600_000_000_000
HOURS = {
    "productive": 210, "exposed_comm": 46, "straggler_wait": 23, "data_loading": 25, "python_or_other": 17,
    "initialization": 19, "checkpoint": 10, "redone_steps": 12, "exposed_mem": 5, "unknown": 9, "not_recorded": 30,
}  # fmt: skip
HOSTILE = "<script>alert(1)</script>"


def fleet() -> FleetData:
    """406 GPU-hours, of which 210 were productive."""
    saving = Saving(
        "llm-7b", "llm", "pretrain", "p5", "throttled", "Rank 3 on n7: 25.0 % more work of its own per step",
        "The device lowers its clock: check cooling.", 14 * HOUR, 42.0, 1.0,
    )  # fmt: skip
    hostile = Saving(HOSTILE, None, None, None, "redone_steps", HOSTILE, HOSTILE, 2 * HOUR, None, None)
    return FleetData(
        day="2026-11-28",
        overview=Overview(4, 6, 2),
        causes=tuple(CauseTime(c, h * HOUR, 3.0 * h, None if c == "not_recorded" else h / 2) for c, h in HOURS.items()),
        savings=(saving, hostile),
        changes=(
            Change("detr-9", "vision", "detr", "REGRESSION", 412.0, 471.0, 14.3),
            Change("dlrm-4", "rec", "dlrm", "IMPROVEMENT", 24.1, 20.6, -14.5),
            Change("conf-2", "speech", None, "MIXED", 233.0, 246.0, 5.6),
        ),
        suspects=(SuspectNode("gpu-0413", 9, ["compute", "throttled"], ["llm-7b", "llm-6b"], 14.0),),
        days=tuple(
            DayTime(f"2026-11-{day}", c, (h + (day - 20 if c == "productive" else 0)) * HOUR)
            for day in range(20, 29) for c, h in HOURS.items()
        ),
        groups={
            by: tuple(GroupTime(name, c, h * HOUR // (n + 1)) for n, name in enumerate(("llm", HOSTILE, None))
                      for c, h in HOURS.items())
            for by in GROUPS
        },
        goodput=(
            FleetGoodput(None, 2, 3, 300 * HOUR, 216 * HOUR, 150 * HOUR),
            FleetGoodput("much_not_recorded", 1, 0, 60 * HOUR, 50 * HOUR, 40 * HOUR),
        ),
        lowest=(part.goodput("llm-7b"), part.goodput(HOSTILE)),
    )  # fmt: skip


def bare() -> FleetData:
    """A day of which nothing is known but that devices were allocated."""
    times = (CauseTime("not_recorded", HOUR, None, None),)
    groups = {by: (GroupTime(None, "not_recorded", HOUR),) for by in GROUPS}
    day = (DayTime("2026-11-28", "not_recorded", HOUR),)
    return FleetData("2026-11-28", Overview(1, 0, 0), times, (), (), (), day, groups)
