"""Own work: step time less what communication held the rank, compared with its peers' in the same step."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth

US = 1_000
BUSY = "no_gpu_activity_captured"


def window(rank: int | None, source: str | None = None, **more: Any) -> Row:
    row = {"source_id": source or f"r{rank}", "rank": rank, "window_start_ns": 0, "window_end_ns": 10**9}
    return {**row, **more}


def step(rank: int | None, duration: int, exposed: int | None = 0, start: int = 0, **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "rank": rank, "step_name": "step", "start_ns": start, "duration_ns": duration}
    return {**row, "exposed_comm_ns": exposed, "status": "complete", **more}


def wait(rank: int, start: int, end: int, **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "event_id": start, "thread_id": 1, "start_ns": start, "end_ns": end}
    return {**row, "is_blocking": True, **more}


def said(rank: int, name: str, start: int, end: int, **more: Any) -> Row:
    return {"source_id": f"r{rank}", "annotation_id": start, "name": name, "start_ns": start, "end_ns": end, **more}


def talk(rank: int, start: int, end: int) -> Row:
    row = {"source_id": f"r{rank}", "event_id": start, "kernel_class": "communication", "start_ns": start}
    return {**row, "effective_end_ns": end, "end_ns": end}


def call(rank: int, start: int, end: int, **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "launch_id": start, "start_ns": start, "end_ns": end, "duration_ns": end - start}
    return {**row, "step_name": "step", "step_occurrence": 0, **more}


def one(expect: Row, exposed: int | None = 400, **given: list[Row]) -> Story:
    """A step of 1,000 us of rank 0."""
    exposed_ns = None if exposed is None else exposed * US
    return story(
        **({"sources": [window(0)], "step_ledger": [step(0, 1_000 * US, exposed_ns)]} | given), expect=[expect]
    )


def own(held: int, **more: Any) -> Row:
    return {"held_ns": held * US, "own_work_ns": (1_000 - held) * US, **more}


HELD = {
    "exposed communication holds a rank while its host is blocked": one(
        own(400, blocked_ns=900 * US), syncs=[wait(0, 100 * US, 1_000 * US)]
    ),
    "a host that runs on is not held": one(own(0, blocked_ns=0)),
    "it is held as long as it is blocked": one(own(150), syncs=[wait(0, 850 * US, 1_000 * US)]),
    "waits of several threads count each instant once": one(
        own(200), syncs=[wait(0, 800 * US, 950 * US), wait(0, 850 * US, 1_000 * US, event_id=1, thread_id=2)]
    ),
    "waits are clipped to the step": one(
        own(70), syncs=[wait(0, -50 * US, 30 * US), wait(0, 960 * US, 2_000 * US)]
    ),
    "markers between streams block nobody": one(
        own(0), syncs=[wait(0, 0, 900 * US, is_blocking=False, thread_id=None)]
    ),
    "a launch that takes long waits for room in the queue": one(
        own(300, launch_call_ns=350 * US, blocked_ns=300 * US),
        launches=[call(0, 0, 300 * US, first_event_start_ns=800 * US),
                  call(0, 400 * US, 450 * US, first_event_start_ns=900 * US)],
        ranges=[said(0, "step", 0, 1_000 * US, is_step=True, step_occurrence=0)],
    ),
    "a launch that is slow by itself waits for nobody": one(
        own(0, blocked_ns=0),
        launches=[call(0, 0, 300 * US, first_event_start_ns=299 * US), call(0, 400 * US, 900 * US)],
    ),
    "a copy waits until its turn comes, and then works": one(
        own(200, blocked_ns=200 * US),
        launches=[call(0, 0, 900 * US, first_event_start_ns=200 * US, memop_count=1)],
    ),
    "a rank that waits without communication does so by itself": one(
        own(0, blocked_ns=900 * US), exposed=0, syncs=[wait(0, 100 * US, 1_000 * US)]
    ),
    "communication calls of the host hold it": one(
        own(250, host_comm_ns=250 * US, blocked_ns=250 * US), exposed=0,
        ranges=[said(0, "gloo:all_reduce", 100 * US, 350 * US)],
    ),
    "each instant counts once, on the host or on the device": one(
        # The host is in its call for 500 us; in 300 of them the device shows the same collective.
        own(600, host_comm_ns=200 * US, blocked_ns=800 * US),
        kernels=[talk(0, 100 * US, 500 * US)],
        ranges=[said(0, "nccl:all_reduce", 200 * US, 700 * US)],
        syncs=[wait(0, 700 * US, 1_000 * US)],
    ),
    "what is no communication, and what is a step, is no call": one(
        own(0, host_comm_ns=0),
        ranges=[said(0, "forward", 0, 900 * US), said(0, "barrier", 0, 900 * US, is_closed=False, end_ns=None),
                said(0, "barrier", 0, 1_000 * US, is_step=True, step_occurrence=0, annotation_id=9)],
    ),
    "without GPU activity the host's calls are all there is": one(
        own(250, reason="one_rank"), exposed=None,
        step_ledger=[step(0, 1_000 * US, None, reason=BUSY)], ranges=[said(0, "barrier", 0, 250 * US)],
    ),
}  # fmt: skip


def ledger(*durations: int, **more: Any) -> list[Row]:
    return [step(rank, duration, **more) for rank, duration in enumerate(durations)]


def ranks(count: int, **more: Any) -> list[Row]:
    return [window(rank, **more) for rank in range(count)]


def excess(*values: int | None, **more: Any) -> list[Row]:
    return [{"rank": rank, "excess_ns": value, **more} for rank, value in enumerate(values)]


PEERS = {
    "the peer of an odd number of ranks is the one in the middle": story(
        sources=ranks(3), step_ledger=ledger(100, 130, 110),
        expect=excess(-10, 20, 0, peer_own_work_ns=110, ranks_seen_count=3, reason=None),
    ),
    "that of an even number is the faster of the two": story(
        sources=ranks(4), step_ledger=ledger(100, 130, 110, 120), expect=excess(-10, 20, 0, 10, peer_own_work_ns=110)
    ),
    "the one whom the others wait for has the excess": story(
        sources=ranks(3),
        step_ledger=[step(0, 1_000, 400), step(1, 1_000, 0), step(2, 1_000, 390)],
        syncs=[wait(rank, 500, 1_000) for rank in range(3)],
        expect=excess(-10, 390, 0, peer_own_work_ns=610),
    ),
    "a rank alone has no peer": story(
        sources=ranks(1), step_ledger=ledger(100),
        expect=excess(None, peer_own_work_ns=None, own_work_ns=100, reason="one_rank", ranks_seen_count=1),
    ),
    "a rank that is not known is compared with nobody": story(
        sources=[*ranks(2), window(None, "x")], step_ledger=[*ledger(100, 120), step(None, 900, source_id="x")],
        expect=[*excess(0, 20, reason=None), {"rank": None, "reason": "rank_missing", "excess_ns": None}],
    ),
    "nor one that two windows claim": story(
        sources=[*ranks(3), window(2, "y")],
        step_ledger=[*ledger(100, 120, 900), step(2, 900, source_id="y")],
        expect=[*excess(0, 20, reason=None, ranks_seen_count=2),
                *[{"rank": 2, "reason": "conflicting_rank", "excess_ns": None}] * 2],
    ),
    "steps under one number with other numbers in their names are not the same": story(
        sources=ranks(2), step_ledger=[step(0, 100, step_index=7), step(1, 120, step_index=8)],
        expect=excess(None, None, reason="step_numbers_differ"),
    ),
    "steps that do not count have no own work": story(
        sources=ranks(4),
        step_ledger=[step(0, 100), step(1, 120), step(2, 100, None, status="uncovered", reason="uncovered"),
                     step(3, 100, None, reason="low_launch_coverage")],
        expect=[*excess(0, 20, reason=None, ranks_seen_count=2), {"rank": 2, "own_work_ns": None,
                "held_ns": None, "reason": "uncovered"}, {"rank": 3, "reason": "low_launch_coverage"}],
    ),
    "attempts and names are compared apart": story(
        sources=[*ranks(2), *[window(rank, f"again{rank}", attempt=1) for rank in range(2)]],
        step_ledger=[*ledger(100, 120), *ledger(300, 350, step_name="epoch", step_occurrence=4),
                     *[step(rank, 50, attempt=1, source_id=f"again{rank}") for rank in range(2)]],
        expect=[{"step_name": "epoch", "excess_ns": 0}, {"step_name": "step", "excess_ns": 0},
                {"step_name": "epoch", "excess_ns": 50}, {"step_name": "step", "excess_ns": 20},
                {"attempt": 1, "excess_ns": 0}, {"attempt": 1, "excess_ns": 0}],
    ),
}  # fmt: skip
STORIES: dict[str, Story] = {**HELD, **PEERS}


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.rank_steps", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_rank_steps(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)


def test_the_slow_rank_of_a_simulated_step_has_its_excess(small_fleet: tuple[Lake, Truth], spark: SparkSession) -> None:
    lake, truth = small_fleet
    job = truth.job("slow_step")
    (fault,) = job.faults
    rows = lake.read(spark, "aggregates.rank_steps").filter(F.col("job_id") == job.job_id).collect()
    assert len(rows) == job.world_size * len(job.devices[0].step_durations_ns)
    assert all(0 <= row["held_ns"] <= row["blocked_ns"] for row in rows)
    for step, injected_ns in fault.own_excess_ns.items():
        ranks = {row["rank"]: row["excess_ns"] for row in rows if row["step_occurrence"] == step}
        slowest = max(ranks, key=lambda rank: ranks[rank])
        assert slowest == fault.ranks[0]
        assert abs(ranks[slowest] - injected_ns) < 0.05 * injected_ns
        assert all(abs(ranks[rank]) < 0.05 * injected_ns for rank in ranks if rank != slowest)
