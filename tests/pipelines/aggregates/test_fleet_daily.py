"""Where device time went: by hand, each cause once, and always all of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest
from expect import Row, Rows, Story, Told, story
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.lake import Lake
from tracelake.pipelines.parameters import Parameters
from tracelake.recorder.simulate import Truth

MS = 1_000_000
DAY = dt.date(2026, 11, 20)
HOUR = 3_600_000_000_000
PRICES = Parameters(gpu_hour_prices={"p5": 2.0})


def source(start: int = 0, end: int = 100, **more: object) -> Row:
    return {"day": DAY, "node_id": "n", "window_start_ns": start * MS, "window_end_ns": end * MS, **more}


def ledger(
    window: int, compute: int | None, comm: int = 0, mem: int = 0, step: int | None = None, **more: object
) -> Row:
    """A row of the device ledger, in milliseconds: of a step, else of the window."""
    of_step: Row = (
        {"scope": "window"} if step is None else {"scope": "step", "step_name": "step", "step_occurrence": step}
    )
    parts = {"compute_ns": compute, "exposed_comm_ns": comm, "exposed_mem_ns": mem}
    told = {name: None if compute is None else (value or 0) * MS for name, value in parts.items()}
    return {"device_id": "d", "node_id": "n", "window_ns": window * MS, **of_step, **told, **more}


def idle(cause: str, ms: int, step: int | None = None, **more: object) -> Row:
    of_step: Row = (
        {"scope": "window"} if step is None else {"scope": "step", "step_name": "step", "step_occurrence": step}
    )
    return {"device_id": "d", "cause": cause, "idle_ns": ms * MS, **of_step, **more}


def steps(*kinds: str, start: int = 10, length: int = 20, attempt: int = 0, index: int = 0) -> dict[str, list[Row]]:
    """Steps one after the other, in milliseconds, with what step_times says of them."""
    marks, rows, times = [], [], []
    for number, kind in enumerate(kinds):
        at = {"attempt": attempt, "start_ns": (start + number * length) * MS}
        name = {"step_name": "step", "step_occurrence": number}
        marks.append({**at, "annotation_id": number, "name": "step", "is_step": True, "step_occurrence": number})
        rows.append(
            {**at, **name, "rank": 0, "step_index": index + number, "duration_ns": length * MS, "status": "complete"}
        )
        judged = {"median_ns": length * MS, "score": 0.0} if kind == "usual" else {}
        times.append(
            {"attempt": attempt, **name, "duration_ns": length * MS, "kind": kind, "step_group": "training", **judged}
        )
    return {"annotations": marks, "step_ledger": rows, "step_times": times}


def both(*given: dict[str, list[Row]]) -> dict[str, Sequence[Row]]:
    return {name: [row for each in given for row in each[name]] for name in given[0]}


def went(**causes: int) -> list[Row]:
    """The rows that must come out, in order of their key."""
    return [{"cause": cause, "device_ns": ms * MS} for cause, ms in sorted(causes.items())]


STORIES: dict[str, Story] = {
    "without steps the parts of the window stand": story(
        sources=[source()], device_ledger=[ledger(100, 60, 10, 5)],
        idle_causes=[idle("data_loading", 20), idle("unknown", 5)],
        expect=went(productive=60, exposed_comm=10, exposed_mem=5, data_loading=20, unknown=5),
    ),
    "a withheld window is whole": story(
        sources=[source()], device_ledger=[ledger(100, None, reason="low_launch_coverage")],
        expect=went(withheld=100),
    ),
    "before, warm-up, steps, after": story(
        sources=[source()], **steps("warm_up", "usual", "usual"),
        device_ledger=[ledger(100, 50, 10), *[ledger(20, 12, 2, step=n) for n in range(3)]],
        idle_causes=[idle("python_or_other", 40), idle("queued", 6, 0), idle("queued", 6, 1), idle("checkpoint", 6, 2)],
        expect=went(initialization=10 + 20, productive=24, exposed_comm=4, queued=6, checkpoint=6, outside_steps=30),
    ),
    "a later window of the process does not start up again": story(
        sources=[source(previous_source_id="before")], **steps("usual"),
        device_ledger=[ledger(100, 12), ledger(20, 12, step=0)], idle_causes=[idle("queued", 88), idle("queued", 8, 0)],
        expect=went(productive=12, queued=8, outside_steps=80),
    ),
    "waiting counts as a straggler's only where a rank is slow": story(
        sources=[source(10, 50)], **steps("usual", "usual"),
        device_ledger=[ledger(40, 10, 30), ledger(20, 5, 15, step=0), ledger(20, 5, 15, step=1)],
        stragglers=[{"rank": 3}],
        collective_waits=[{"device_id": "d", "step_name": "step", "step_occurrence": 0, "wait_ns": 8 * MS},
                          {"device_id": "d", "step_name": "step", "step_occurrence": 0, "wait_ns": 3 * MS},
                          {"device_id": "d", "step_name": "step", "step_occurrence": 1, "wait_ns": 99 * MS}],
        expect=went(productive=10, straggler_wait=11 + 15, exposed_comm=4),
    ),
    "and without one it is communication": story(
        sources=[source(10, 50)], **steps("usual", "usual"),
        device_ledger=[ledger(40, 10, 30), ledger(20, 5, 15, step=0), ledger(20, 5, 15, step=1)],
        collective_waits=[{"device_id": "d", "step_name": "step", "step_occurrence": 0, "wait_ns": 8 * MS}],
        expect=went(productive=10, exposed_comm=30),
    ),
    "steps that the next attempt does again": story(
        sources=[source(0, 40), source(50, 90, source_id="t", attempt=1)],
        **both(steps("usual", "usual", start=0), {
            name: [{**row, "source_id": "t"} if name != "step_times" else row for row in rows]
            for name, rows in steps("usual", "usual", start=50, attempt=1, index=1).items()}),
        device_ledger=[ledger(40, 40), *[ledger(20, 20, step=n) for n in range(2)],
                       *[{**row, "source_id": "t", "attempt": 1} for row in
                         [ledger(40, 40), *[ledger(20, 20, step=n) for n in range(2)]]]],
        expect=[{"attempt": 0, "cause": "productive", "device_ns": 20 * MS},
                {"attempt": 0, "cause": "redone_steps", "device_ns": 20 * MS},
                {"attempt": 1, "cause": "productive", "device_ns": 40 * MS}],
    ),
    "between windows nothing was recorded": story(
        sources=[source(0, 40), source(60, 100, source_id="t", previous_source_id="s")],
        device_ledger=[ledger(40, 40), ledger(40, 40, source_id="t")],
        expect=went(productive=80, not_recorded=20),
    ),
    "hours have a price and an energy": story(
        sources=[{"day": DAY, "node_id": "n", "window_start_ns": 0, "window_end_ns": 3 * HOUR}],
        device_ledger=[ledger(0, 0) | {"window_ns": 3 * HOUR, "compute_ns": 3 * HOUR}],
        jobs=[{"instance_type": "p5", "project": "p"}],
        device_samples=[{"device_id": "d", "node_id": "n", "power_mean_watts": 500.0}],
        expect=[{"day": DAY, "node_id": "n", "project": "p", "cause": "productive", "cost": 6.0, "energy_kwh": 1.5}],
    ),
    "a job without devices allocates none": story(sources=[source()], expect=[]),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.fleet_daily", STORIES, PRICES)


@pytest.mark.parametrize("title", STORIES)
def test_fleet_daily(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)


def test_all_rows_of_an_attempt_sum_to_its_devices_times_its_wall_time(
    small_fleet: tuple[Lake, Truth], spark: SparkSession
) -> None:
    lake, truth = small_fleet
    sums = lake.read(spark, "aggregates.fleet_daily").groupBy("job_id").agg(F.sum("device_ns").alias("ns")).collect()
    wall = F.max("window_end_ns") - F.min("window_start_ns")
    walls = lake.read(spark, "normalized.sources").groupBy("job_id").agg(wall.alias("ns")).collect()
    devices = {job.job_id: len({device.device_id for device in job.devices}) for job in truth.jobs}
    allocated = {row["job_id"]: row["ns"] * devices[row["job_id"]] for row in walls}
    assert {row["job_id"]: row["ns"] for row in sums} == allocated
