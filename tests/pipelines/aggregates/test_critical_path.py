"""The critical path: from one collective of all ranks to the next it lies on the rank that came last."""

from __future__ import annotations

import random
from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth

CLASSES = (
    "compute_ns", "exposed_comm_ns", "memcpy_ns", "memset_ns", "runtime_ns", "data_loading_ns", "host_work_ns",
    "other_ns",
)  # fmt: skip
S = 1_000_000_000


def source(rank: int | None, start: int, end: int, **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "rank": rank, "node_id": f"n{rank}"}
    return {**row, "window_start_ns": start, "window_end_ns": end, **more}


def step(rank: int | None, occurrence: int, start: int, end: int, **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "rank": rank, "node_id": f"n{rank}", "step_name": "step", "status": "complete"}
    return {**row, "step_occurrence": occurrence, "start_ns": start, "duration_ns": end - start, **more}


def kernel(rank: int, start: int, end: int, kernel_class: str = "gemm", **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "event_id": start, "device_id": f"d{rank}", "kernel_class": kernel_class}
    return {**row, "start_ns": start, "end_ns": end, "effective_end_ns": end, **more}


def call(rank: int, number: int, start: int, end: int, **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "rank": rank, "node_id": f"n{rank}", "kernel_id": start, "match_group": "g"}
    return {**row, "match_number": number, "start_ns": start, "end_ns": end, "is_reliable": True, **more}


def match(number: int, last_rank: int | None, transfer: int | None, ranks: int = 2, **more: Any) -> Row:
    row = {"match_group": "g", "match_number": number, "operation": "allreduce", "is_reliable": True}
    return {**row, "last_rank": last_rank, "transfer_ns": transfer, "ranks_seen_count": ranks, **more}


def on(rank: int, start: int, end: int, number: int | None = None, transfer: int | None = None, **more: Any) -> Row:
    row = {"rank": rank, "source_id": f"r{rank}", "node_id": f"n{rank}", "start_ns": start, "duration_ns": end - start}
    group = None if number is None else "g"
    return {**row, "match_group": group, "match_number": number, "transfer_ns": transfer, **more}


def of(*classes: int | None) -> Row:
    return dict(zip(CLASSES, classes, strict=True))


def nothing(occurrence: int, reason: str) -> Row:
    names = ("source_id", "rank", "start_ns", "duration_ns", "transfer_ns", *CLASSES)
    return {"step_occurrence": occurrence, "segment_number": 0, "reason": reason, **dict.fromkeys(names)}


# Rank 1's clock is 5,000 ahead. It comes late to the first collective, rank 0 to the second.
WORLD = [source(0, -10, 2_000), source(1, 4_990, 7_000)]
CALLS = [call(0, 0, 100, 400), call(1, 0, 5_350, 5_400), call(0, 1, 860, 900), call(1, 1, 5_500, 5_900)]
MATCHES = [match(0, 1, 50), match(1, 0, 40)]
KERNELS = [
    kernel(0, 0, 100), kernel(0, 100, 400, "communication"), kernel(0, 450, 800),
    kernel(0, 860, 900, "communication"), kernel(1, 5_000, 5_300), kernel(1, 5_350, 5_400, "communication"),
    kernel(1, 5_400, 5_500), kernel(1, 5_500, 5_900, "communication"),
]  # fmt: skip
STEPS = [step(0, 0, 0, 1_000), step(1, 0, 5_000, 5_950)]
GIVEN: dict[str, list[Row]] = {
    "sources": WORLD, "collective_waits": CALLS, "collective_matches": MATCHES, "kernels": KERNELS,
    "step_ledger": STEPS, "launches": [{"source_id": "r1", "launch_id": 1, "start_ns": 5_290, "end_ns": 5_350}],
}  # fmt: skip
FIRST = on(1, 5_000, 5_400, 0, 50)
SECOND = on(0, 400, 900, 1, 40)
LAST = on(0, 900, 1_000)


def given(expect: list[Row], **other: list[Row]) -> Story:
    return story(expect, **(GIVEN | other))


PATHS = {
    "from one barrier to the next it lies on who came last": given(
        [
            FIRST | of(300, 50, 0, 0, 50, 0, 0, 0) | {"segment_number": 0, "reason": None},
            SECOND | of(350, 40, 0, 0, 0, 0, 0, 110) | {"segment_number": 1},
            LAST | of(0, 0, 0, 0, 0, 0, 0, 100) | {"segment_number": 2},
        ]
    ),
    "segments are cut at steps, and what lies in none is left out": given(
        [
            {"step_occurrence": 0, "segment_number": 0} | on(1, 5_000, 5_300) | of(300, 0, 0, 0, 0, 0, 0, 0),
            {"step_occurrence": 1, "segment_number": 0} | on(1, 5_310, 5_400, 0, 50) | of(0, 50, 0, 0, 40, 0, 0, 0),
            {"step_occurrence": 1, "segment_number": 1} | SECOND,
        ],
        step_ledger=[
            step(0, 0, 0, 300), step(0, 1, 300, 900), step(1, 0, 5_000, 5_300), step(1, 1, 5_310, 5_900)
        ],
    ),
    "collectives of some ranks, unreliable ones and those that ranks leave apart end nothing": given(
        [FIRST, SECOND | {"match_number": 9, "transfer_ns": 7, "rank": 0}, LAST],
        collective_waits=[*CALLS[:2], *[row | {"match_number": n, "kernel_id": n} for n in (1, 2, 3)
                                        for row in CALLS[2:]], *[row | {"match_number": 9} for row in CALLS[2:]]],
        collective_matches=[MATCHES[0], match(1, 0, 1, 1), match(2, None, None, is_reliable=False),
                            match(3, 0, 1, operation="broadcast"), match(9, 0, 7)],
    ),
    "a step without known classes has segments without": given(
        [FIRST | of(*[None] * 8) | {"reason": "low_launch_coverage"}, SECOND | {"reason": None}, LAST],
        step_ledger=[STEPS[0], STEPS[1] | {"reason": "low_launch_coverage"}],
    ),
    "the path goes into each window anew": given(
        [FIRST, SECOND, LAST, on(1, 8_000, 8_100, 2, 10, source_id="r1b", step_occurrence=1)],
        sources=[*WORLD, source(0, 2_990, 4_000, source_id="r0b"), source(1, 7_980, 9_000, source_id="r1b")],
        collective_waits=[*CALLS, call(0, 2, 3_000, 3_100, source_id="r0b"), call(1, 2, 8_090, 8_100, source_id="r1b")],
        collective_matches=[*MATCHES, match(2, 1, 10)],
        step_ledger=[*STEPS, step(0, 1, 3_000, 3_100, source_id="r0b"), step(1, 1, 8_000, 8_100, source_id="r1b")],
    ),
    "after a barrier that is the last for some ranks only, the next tells who held": given(
        [FIRST, SECOND | {"duration_ns": 500}],
        sources=[WORLD[0], source(1, 4_990, 5_950), source(1, 5_950, 7_000, source_id="r1b")],
        collective_waits=[*CALLS, call(0, 2, 1_900, 1_990), call(1, 2, 6_000, 6_990, source_id="r1b")],
        collective_matches=[*MATCHES, match(2, 1, 90)],
        step_ledger=STEPS,
    ),
    "a path over many slices of time sums exactly": given(
        [on(1, 0, 23 * S, 0, 1) | of(6 * S, 1, 0, 0, 0, 0, 0, 17 * S - 1), on(0, 23 * S, 40 * S)
         | of(0, 0, 0, 0, 0, 0, 0, 17 * S)],
        sources=[source(0, 0, 40 * S), source(1, 0, 40 * S)],
        collective_waits=[call(0, 0, S, 23 * S), call(1, 0, 23 * S - 1, 23 * S)],
        collective_matches=[match(0, 1, 1)],
        kernels=[kernel(1, S, 7 * S), kernel(1, 23 * S - 1, 23 * S, "communication"), kernel(0, 0, 22 * S)],
        launches=[],
        step_ledger=[step(0, 0, 0, 40 * S), step(1, 0, 0, 30 * S)],
    ),
}  # fmt: skip

ALONE = {
    "the steps of a process that is alone are the path": given(
        [on(0, 0, 1_000) | of(450, 0, 0, 0, 0, 0, 0, 550) | {"segment_number": 0}],
        sources=WORLD[:1], collective_waits=[], collective_matches=[],
        step_ledger=[STEPS[0] | of(450, 0, 0, 0, 0, 0, 0, 550)],
    ),
    "also where it has no rank, and what is not known of it stays so": given(
        [{"rank": None, "duration_ns": 100, **of(*[None] * 8), "reason": "uncovered", "step_occurrence": 0},
         {"rank": None, "duration_ns": 50, "step_occurrence": 1}],
        sources=[source(None, 0, 900), source(None, 900, 2_000, source_id="later")],
        collective_waits=[], collective_matches=[],
        step_ledger=[step(None, 0, 0, 100, status="uncovered", reason="uncovered"),
                     step(None, 1, 950, 1_000, source_id="later")],
    ),
}  # fmt: skip

WITHOUT = {
    "no collective of all ranks": given(
        [nothing(0, "no_common_collectives")], collective_matches=[match(0, 1, 50, ranks=1)]
    ),
    "a process without a rank": given(
        [nothing(0, "rank_missing")], sources=[*WORLD, source(None, 0, 10)]
    ),
    "a rank that two windows claim": given(
        [nothing(0, "conflicting_rank")], sources=[*WORLD, source(1, 5_000, 6_000, source_id="copy")]
    ),
    "less than half of the ranks": given(
        [nothing(0, "too_few_ranks")], sources=[row | {"world_size": 8} for row in WORLD]
    ),
    "one rank of several": given(
        [nothing(0, "too_few_ranks")], sources=[WORLD[0] | {"world_size": 2}], step_ledger=STEPS[:1]
    ),
}  # fmt: skip


def played(seed: int, ranks: int = 3, steps: int = 5) -> Story:
    """Ranks that work at random and meet in two barriers a step, the second at its end, each on a clock of its own.

    The path of a step is then the time from one last barrier to the next, and each segment is of the most work.
    """
    chance = random.Random(seed)
    clock = [0, *[chance.randrange(-10_000, 10_000) for _ in range(ranks - 1)]]
    kernels: list[Row] = []
    calls: list[Row] = []
    ledger: list[Row] = []
    matches: list[Row] = []
    expect: list[Row] = []
    now = began = 0
    for number in range(2 * steps):
        work = chance.sample(range(10, 300), ranks)
        transfer = chance.randrange(1, 20)
        end = now + max(work) + transfer
        last = work.index(max(work))
        for rank in range(ranks):
            at = clock[rank]
            kernels += [kernel(rank, at + now, at + now + work[rank]),
                        kernel(rank, at + now + work[rank], at + end, "communication")]  # fmt: skip
            calls.append(call(rank, number, at + now + work[rank], at + end))
            if number % 2:
                ledger.append(step(rank, number // 2, at + began, at + end))
        matches.append(match(number, last, transfer, ranks))
        expect.append(
            on(last, clock[last] + now, clock[last] + end, number, transfer)
            | of(work[last], transfer, *[0] * 6)
            | {"step_occurrence": number // 2, "segment_number": number % 2}
        )
        now, began = end, end if number % 2 else began
    return story(
        expect, sources=[source(rank, clock[rank], clock[rank] + now) for rank in range(ranks)], kernels=kernels,
        collective_waits=calls, collective_matches=matches, step_ledger=ledger,
    )  # fmt: skip


PLAYED = {f"random work, seed {seed}": played(seed) for seed in range(6)}
STORIES = {**PATHS, **ALONE, **WITHOUT, **PLAYED}


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.critical_path", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_critical_path(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)


def test_the_slow_rank_of_a_simulated_step_holds_its_path(small_fleet: tuple[Lake, Truth], spark: SparkSession) -> None:
    lake, truth = small_fleet
    job = truth.job("slow_step")
    (fault,) = job.faults
    of_job = F.col("job_id") == job.job_id
    path = lake.read(spark, "aggregates.critical_path").filter(of_job).collect()
    ledger = lake.read(spark, "aggregates.step_ledger").filter(of_job).collect()
    for step, injected_ns in fault.own_excess_ns.items():
        held = [row for row in path if row["step_occurrence"] == step]
        by_guilty = [row for row in held if row["rank"] == fault.ranks[0]]
        slowest_ns = max(row["duration_ns"] for row in ledger if row["step_occurrence"] == step)
        assert sum(row["compute_ns"] for row in by_guilty) > 0.95 * injected_ns
        assert abs(sum(row["duration_ns"] for row in held) - slowest_ns) < 0.05 * slowest_ns
