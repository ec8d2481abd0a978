"""Collectives across ranks: matched by sequence, else by an order that holds, and who waited for whom."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story
from pyspark.sql import SparkSession

from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth

US = 1_000


def windows(ranks: int, world: int | None = None) -> list[Row]:
    return [
        {
            "source_id": f"r{rank}",
            "rank": rank,
            "world_size": world or ranks,
            "window_start_ns": 0,
            "window_end_ns": 10**9,
        }
        for rank in range(ranks)
    ]


def ran(rank: int, number: int, start: int, end: int, name: str = "ncclDevKernel_AllReduce", **more: Any) -> Row:
    """A communication kernel; its id is its number."""
    row = {"source_id": f"r{rank}", "rank": rank, "event_id": number, "start_ns": start, "effective_end_ns": end}
    what = {"duration_ns": end - start, "kernel_class": "communication", "short_name": name, "stream_id": 20 + rank}
    return {**row, **what, "device_id": f"d{rank}", "node_id": "n", **more}


def said(rank: int, number: int, sequence: int | None, operation: str = "allreduce", **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "kernel_id": number, "sequence": sequence, "operation": operation}
    return {**row, "group_id": "0", "group_size_count": 2, "bytes": 64, "dtype": "Float", **more}


def pair(starts: tuple[int, int], number: int, end: int, *more: Any) -> list[Row]:
    return [ran(rank, number, start, end, *more) for rank, start in enumerate(starts)]


def made(*waits: int | None, **more: Any) -> list[Row]:
    return [{"wait_ns": wait, **more} for wait in waits]


def both(number: int, sequence: int | None, **more: Any) -> list[Row]:
    return [said(rank, number, sequence, **more) for rank in (0, 1)]


SEQUENCE = {
    "the last to come waits least, and its time is the transfer": story(
        sources=windows(2),
        kernels=pair((100, 170), 1, 200),
        collectives=both(1, 7),
        expect=[
            {"rank": 0, "wait_ns": 70, "transfer_ns": 30, "match_group": "group 0", "match_number": 7, "bytes": 64,
             "operation": "allreduce", "match_method": "sequence", "is_reliable": True, "reason": None,
             "ranks_seen_count": 2, "ranks_expected_count": 2, "group_id": "0"},
            {"rank": 1, "wait_ns": 0, "transfer_ns": 30},
        ],
    ),
    "clocks do not matter: own durations are compared": story(
        sources=windows(2),
        kernels=[ran(0, 1, 100, 200), ran(1, 1, 900_070, 900_100)],
        collectives=both(1, 7),
        expect=made(70, 0, transfer_ns=30),
    ),
    "an impossible kernel counts to its effective end": story(
        sources=windows(2),
        kernels=[ran(0, 1, 100, 200, end_ns=9_000), ran(1, 1, 170, 200)],
        collectives=both(1, 7),
        expect=made(70, 0),
    ),
    "a rank that is alone has nothing to compare": story(
        sources=windows(1, 2), kernels=[ran(0, 1, 100, 200)], collectives=[said(0, 1, 7)],
        expect=made(None, reason="one_rank", match_method="none", is_reliable=False, transfer_ns=None),
    ),
    "below half of the ranks there is no verdict": story(
        sources=windows(2, 5), kernels=pair((100, 170), 1, 200), collectives=both(1, 7, group_size_count=5),
        expect=made(None, None, reason="too_few_ranks", match_method="sequence", ranks_expected_count=5),
    ),
    "half of the ranks suffice": story(
        sources=windows(2, 4), kernels=pair((100, 170), 1, 200), collectives=both(1, 7, group_size_count=4),
        expect=made(70, 0, ranks_seen_count=2, ranks_expected_count=4),
    ),
    "two ranks that call different operations do not match": story(
        sources=windows(2), kernels=pair((100, 170), 1, 200),
        collectives=[said(0, 1, 7), said(1, 1, 7, "_allgather_base")],
        expect=made(None, None, reason="operations_differ"),
    ),
    "more ranks than the group has: groups of one name": story(
        sources=windows(3), kernels=[ran(rank, 1, 100, 200) for rank in range(3)],
        collectives=[said(rank, 1, 7) for rank in range(3)], expect=made(None, None, None, reason="ambiguous_group"),
    ),
    "a number that comes twice on a rank is not matched": story(
        sources=windows(2), kernels=[*pair((100, 170), 1, 200), ran(0, 2, 300, 400)],
        collectives=[*both(1, 7), said(0, 2, 7)], expect=made(None, None, None, reason="repeated"),
    ),
    "sends and receives are no collectives": story(
        sources=windows(2), kernels=pair((100, 170), 1, 200),
        collectives=[said(0, 1, 7, "send"), said(1, 1, 7, "recv")],
        expect=made(None, None, reason="point_to_point", match_method="none"),
    ),
    "a rank that two windows claim is compared with nobody": story(
        sources=[*windows(2), {"source_id": "r9", "rank": 1, "world_size": 2, "window_start_ns": 0,
                                "window_end_ns": 10**9}],
        kernels=[*pair((100, 170), 1, 200), ran(1, 1, 180, 200, source_id="r9")],
        collectives=[*both(1, 7), said(1, 1, 7, source_id="r9")],
        expect=[{"reason": "one_rank"}, {"reason": "conflicting_rank"}, {"reason": "conflicting_rank"}],
    ),
    "without ranks nothing is matched": story(
        sources=[row | {"rank": None} for row in windows(2)],
        kernels=[row | {"rank": None} for row in pair((100, 170), 1, 200)],
        collectives=both(1, 7), expect=made(None, None, reason="rank_missing", match_method="none"),
    ),
    "compute kernels are no collectives": story(
        sources=windows(2), kernels=[ran(0, 1, 0, 9, kernel_class="gemm")], expect=[]
    ),
    "attempts are matched apart": story(
        sources=[*windows(1), *[row | {"attempt": 1, "source_id": "r1", "rank": 1} for row in windows(1)]],
        kernels=[ran(0, 1, 100, 200), ran(1, 1, 100, 200, attempt=1)],
        collectives=both(1, 7), expect=made(None, None, reason="one_rank"),
    ),
}  # fmt: skip

ENDS = (1_000, 5_000, 7_000, 16_000)


def ordered(ends: tuple[int, ...], rank: int, late: int = 0, **more: Any) -> list[Row]:
    """Kernels of one rank that end so; the rank's clock and its lateness differ."""
    clock = 3_000_000 * rank
    return [
        ran(rank, n, US * end - 500 + late * (n + 1) + clock, US * end + clock, **more) for n, end in enumerate(ends)
    ]


BY_ORDER = {"match_method": "order", "is_reliable": True, "group_id": None, "match_group": "stream 0 in order"}
ORDER = {
    "where nothing names the group, the order on the stream does": story(
        sources=windows(2),
        kernels=[*ordered(ENDS, 0), *ordered(ENDS, 1, late=100)],
        expect=[
            *[{"rank": 0, "match_number": n, "wait_ns": 100 * (n + 1), **BY_ORDER} for n in range(4)],
            *[{"rank": 1, "match_number": n, "wait_ns": 0, "operation": "all_reduce"} for n in range(4)],
        ],
    ),
    "a group without sequence numbers is matched in order": story(
        sources=windows(2),
        kernels=[*ordered(ENDS, 0), *ordered(ENDS, 1, late=100)],
        collectives=[said(rank, n, None) for rank in (0, 1) for n in range(4)],
        expect=made(100, 200, 300, 400, 0, 0, 0, 0, match_group="group 0 in order", match_method="order"),
    ),
    "two collectives are too few to trust an order": story(
        sources=windows(2),
        kernels=[*ordered(ENDS[:2], 0), *ordered(ENDS[:2], 1)],
        expect=made(*[None] * 4, reason="too_few_collectives", match_method="order", is_reliable=False),
    ),
    "a rank with one collective less breaks the order": story(
        sources=windows(2),
        kernels=[*ordered(ENDS, 0), *ordered(ENDS[1:], 1)],
        expect=[*made(*[None] * 3, reason="counts_differ"), *made(None, reason="one_rank"),
                *made(*[None] * 3, reason="counts_differ")],
    ),
    "ranks whose collectives end at other times did not run the same ones": story(
        sources=windows(2),
        kernels=[*ordered(ENDS, 0), *ordered((1_000, 3_000, 7_000, 16_000), 1)],
        expect=made(*[None] * 8, reason="ends_differ"),
    ),
    "other operations in between break the order": story(
        sources=windows(2),
        kernels=[*ordered(ENDS, 0), *ordered(ENDS[:3], 1), *[ran(1, 9, 20_000_000, 20_000_100, "ncclAllGather")]],
        expect=made(*[None] * 8, reason="operations_differ"),
    ),
    "streams are told apart by who comes first, not by their numbers": story(
        sources=windows(2),
        kernels=[*ordered(ENDS, 0), *[row | {"stream_id": 5, "event_id": 10 + n}
                                      for n, row in enumerate(ordered(tuple(end + 2 for end in ENDS), 0))],
                 *ordered(ENDS, 1, late=100),
                 *[row | {"stream_id": 99, "event_id": 10 + n}
                   for n, row in enumerate(ordered(tuple(end + 2 for end in ENDS), 1, late=10))]],
        expect=[*made(100, 200, 300, 400, match_group="stream 0 in order"),
                *made(10, 20, 30, 40, match_group="stream 1 in order"),
                *made(0, 0, 0, 0, match_group="stream 0 in order"),
                *made(0, 0, 0, 0, match_group="stream 1 in order")],
    ),
    "an order counts on over slices of time": story(
        sources=windows(2),
        kernels=[row for rank in (0, 1) for row in ordered((1, 6_000_000, 6_000_001, 21_000_000), rank)],
        expect=[{"match_number": n, "wait_ns": 0} for n in range(4)] * 2,
    ),
}  # fmt: skip

STEPS = {
    "the step is that of the launch, numbered within the attempt": story(
        sources=[
            {"source_id": "r0", "rank": 0, "window_start_ns": 0, "window_end_ns": 100},
            {"source_id": "later", "rank": 0, "window_start_ns": 200, "window_end_ns": 10**9},
        ],
        kernels=[
            ran(0, 1, 10, 20, step_name="step", step_occurrence=0),
            ran(0, 2, 250, 270, source_id="later", step_name="step", step_occurrence=0),
            ran(0, 3, 280, 290, source_id="later", step_name="step", step_occurrence=1),
            ran(0, 4, 400, 410, source_id="later"),
        ],
        ranges=[
            {"source_id": "r0", "annotation_id": 1, "name": "step", "is_step": True, "step_occurrence": 0},
            {"source_id": "later", "annotation_id": 1, "name": "step", "is_step": True, "step_occurrence": 0,
             "start_ns": 240},
        ],
        step_ledger=[
            {"source_id": "r0", "step_name": "step", "step_occurrence": 0},
            {"source_id": "later", "step_name": "step", "step_occurrence": 1, "start_ns": 240},
        ],
        expect=[
            {"kernel_id": 2, "step_name": "step", "step_occurrence": 1},
            {"kernel_id": 3, "step_name": None, "step_occurrence": None},
            {"kernel_id": 4, "step_name": None, "step_occurrence": None},
            {"kernel_id": 1, "step_name": "step", "step_occurrence": 0},
        ],
    )
}  # fmt: skip
STORIES: dict[str, Story] = {**SEQUENCE, **ORDER, **STEPS}


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.collective_waits", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_collective_waits(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)


def test_waits_are_those_of_a_plain_recount(small_fleet: tuple[Lake, Truth], spark: SparkSession) -> None:
    """Of simulated jobs: every collective of every rank, against the shortest of its ranks."""
    lake, truth = small_fleet
    ran = lake.read(spark, "normalized.collectives").collect()
    shortest: dict[tuple[str, int], int] = {}
    for row in ran:
        match = row["job_id"], row["sequence"]
        shortest[match] = min(row["duration_ns"], shortest.get(match, row["duration_ns"]))
    want = {(r["source_id"], r["kernel_id"]): r["duration_ns"] - shortest[r["job_id"], r["sequence"]] for r in ran}
    waits = lake.read(spark, "aggregates.collective_waits").filter("is_reliable").collect()
    got = {(row["source_id"], row["kernel_id"]): row["wait_ns"] for row in waits}
    assert got == {key: want[key] for key in got}
    # Of the job whose process died, the last collective may lack ranks; nothing else does.
    dead = truth.job("killed_process")
    missing = [row for row in ran if (row["source_id"], row["kernel_id"]) not in got]
    assert all(row["job_id"] == dead.job_id for row in missing)
    assert len(missing) < 2 * dead.world_size
