"""Collectives over their ranks: transfer, waits, bandwidth, and starts on aligned clocks."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

MIB = 2**20


def call(rank: int, start: int, wait: int | None, transfer: int = 1_000, number: int = 7, **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "rank": rank, "kernel_id": number, "match_group": "group 0", "group_id": "0"}
    what = {"match_number": number, "operation": "allreduce", "bytes": MIB, "dtype": "Float", "start_ns": start}
    counts = {"ranks_seen_count": 4, "ranks_expected_count": 4, "match_method": "sequence", "is_reliable": True}
    times = {"transfer_ns": transfer, "wait_ns": wait, "step_name": "step", "step_occurrence": 3}
    return {**row, **what, **counts, **times, **more}


def clock(rank: int, offset: int | None, residual: int | None = 0, **more: Any) -> Row:
    return {"source_id": f"r{rank}", "rank": rank, "offset_ns": offset, "residual_ns": residual, **more}


CALLS = [call(0, 100, 700), call(1, 150, 650), call(2, 800, 0), call(3, 500, 300)]
CLOCKS = [clock(rank, 0) for rank in range(4)]
NOT = {"wait_ns": None, "transfer_ns": None, "is_reliable": False}

STORIES: dict[str, Story] = {
    "who came last, and what the others lost": story(
        collective_waits=CALLS, clock_alignment=CLOCKS,
        expect=[{"operation": "allreduce", "dtype": "Float", "group_id": "0", "transfer_ns": 1_000,
                 "wait_sum_ns": 1_650, "wait_max_ns": 700, "last_rank": 2, "last_margin_ns": 300, "start_ns": 100,
                 "step_name": "step",
                 "step_occurrence": 3, "ranks_seen_count": 4, "start_skew_ns": 700, "skew_reason": None}],
    ),
    "an all-reduce over four links moves 1.5 times its bytes": story(
        collective_waits=CALLS, clock_alignment=CLOCKS,
        expect=[{"message_bytes": MIB, "algo_bandwidth_bytes_per_s": MIB * 1e6,
                 "bus_bandwidth_bytes_per_s": 1.5 * MIB * 1e6}],
    ),
    "an all-gather moves what all ranks put in": story(
        collective_waits=[row | {"operation": "_allgather_base"} for row in CALLS], clock_alignment=CLOCKS,
        expect=[{"message_bytes": 4 * MIB, "algo_bandwidth_bytes_per_s": 4 * MIB * 1e6,
                 "bus_bandwidth_bytes_per_s": 3 * MIB * 1e6}],
    ),
    "a reduce-scatter and an all-to-all move three quarters over each link": story(
        collective_waits=[*[row | {"operation": "_reduce_scatter_base"} for row in CALLS],
                          *[row | {"operation": "all_to_all", "match_number": 8, "kernel_id": 8} for row in CALLS]],
        clock_alignment=CLOCKS, expect=[{"bus_bandwidth_bytes_per_s": 0.75 * MIB * 1e6}] * 2,
    ),
    "others move their bytes": story(
        collective_waits=[row | {"operation": "broadcast"} for row in CALLS], clock_alignment=CLOCKS,
        expect=[{"bus_bandwidth_bytes_per_s": MIB * 1e6}],
    ),
    "without bytes or without time there is no bandwidth": story(
        collective_waits=[*[row | {"bytes": None} for row in CALLS],
                          *[row | {"transfer_ns": 0, "match_number": 8, "kernel_id": 8} for row in CALLS]],
        clock_alignment=CLOCKS,
        expect=[{"algo_bandwidth_bytes_per_s": None, "bus_bandwidth_bytes_per_s": None, "last_rank": 2}] * 2,
    ),
    "starts are compared on aligned clocks": story(
        collective_waits=[call(0, 100, 700), call(1, 5_000_800, 0)],
        clock_alignment=[clock(0, 0), clock(1, 5_000_000)],
        expect=[{"start_skew_ns": 700, "start_ns": 100}],
    ),
    "a drift counts from where the offset holds": story(
        collective_waits=[call(0, 100, 700), call(1, 10_000_800, 0)],
        # 20 ms before its origin a clock that gains 100 in a million is 2 us less ahead.
        clock_alignment=[clock(0, 0), clock(1, 10_002_000, drift_ppm=100.0, origin_ns=30_000_800)],
        expect=[{"start_skew_ns": 700, "skew_reason": None}],
    ),
    "a skew below ten residuals cannot be told": story(
        collective_waits=[*CALLS, *[row | {"match_number": 8, "kernel_id": 8} for row in CALLS[:2]]],
        clock_alignment=[clock(0, 0), *[clock(rank, 0, 70) for rank in (1, 2, 3)]],
        expect=[{"start_skew_ns": 700, "skew_reason": None}, {"start_skew_ns": None, "skew_reason": "not_resolvable"}],
    ),
    "a rank whose clock is not aligned leaves no skew": story(
        collective_waits=CALLS, clock_alignment=[*CLOCKS[:3], clock(3, None, None)],
        expect=[{"start_skew_ns": None, "skew_reason": "no_alignment", "wait_sum_ns": 1_650}],
    ),
    "an unreliable match has no guilty rank, no wait and no skew": story(
        collective_waits=[row | NOT | {"reason": "ends_differ", "match_method": "order"} for row in CALLS],
        clock_alignment=CLOCKS,
        expect=[{"is_reliable": False, "reason": "ends_differ", "match_method": "order", "last_rank": None,
                 "wait_sum_ns": None, "wait_max_ns": None, "last_margin_ns": None, "transfer_ns": None,
                 "algo_bandwidth_bytes_per_s": None, "start_skew_ns": None, "skew_reason": "unreliable_match"}],
    ),
    "ranks in different steps give none": story(
        collective_waits=[CALLS[0], CALLS[1] | {"step_occurrence": 4}], clock_alignment=CLOCKS,
        expect=[{"step_name": None, "step_occurrence": None}],
    ),
    "equal waits go to the lowest rank": story(
        collective_waits=[call(rank, 100, 0) for rank in (3, 1, 2)], clock_alignment=CLOCKS,
        expect=[{"last_rank": 1, "last_margin_ns": 0, "wait_sum_ns": 0}],
    ),
    "ranks that are not known, and sends, are in no collective": story(
        collective_waits=[call(0, 1, None, **{**NOT, "reason": why, "match_method": "none", "number": n})
                          for n, why in enumerate(("rank_missing", "conflicting_rank", "point_to_point"))],
        clock_alignment=CLOCKS, expect=[],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.collective_matches", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_collective_matches(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
