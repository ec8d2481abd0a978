"""Clocks aligned on the common ends of collectives: offset, drift and residual."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

MS = 1_000_000


def window(rank: int | None, node: str | None, source: str | None = None, **more: Any) -> Row:
    return {"source_id": source or f"r{rank}", "rank": rank, "node_id": node, **more}


def ended(rank: int, number: int, end: int, **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "kernel_id": number, "match_group": "group 0", "match_number": number}
    return {**row, "end_ns": end, "is_reliable": True, "operation": "allreduce", **more}


def ends(rank: int, clock: list[int]) -> list[Row]:
    return [ended(rank, number, at) for number, at in enumerate(clock)]


TRUE = [1_000 + MS * n for n in range(20)]
HERE = {"method": "same_host", "offset_ns": 0, "residual_ns": 0, "reason": None}
NONE = {"method": "none", "offset_ns": None, "residual_ns": None, "reason": "no_matched_collectives", "drift_ppm": None}

STORIES: dict[str, Story] = {
    "a clock that is ahead": story(
        sources=[window(0, "a"), window(1, "b")],
        collective_waits=[*ends(0, TRUE), *ends(1, [at + 5 * MS for at in TRUE])],
        expect=[{"rank": 0, "reference": "a", **HERE},
                {"rank": 1, "reference": "a", "method": "collective_ends", "offset_ns": 5 * MS, "residual_ns": 0,
                 "drift_ppm": 0.0, "matched_count": 20, "reason": None}],
    ),
    "a clock that gains 100 in a million": story(
        sources=[window(0, "a"), window(1, "b")],
        collective_waits=[*ends(0, TRUE), *ends(1, [at + 7_000 + 100 * n for n, at in enumerate(TRUE)])],
        # 19 ms apart on the reference clock, 1.9 us more on its own: the slope is 100 in 1,000,100.
        expect=[{"rank": 0}, {"rank": 1, "offset_ns": 7_950, "residual_ns": 0, "matched_count": 20}],
    ),
    "a few collectives that end oddly move nothing": story(
        sources=[window(0, "a"), window(1, "b")],
        collective_waits=[*ends(0, TRUE), *ends(1, [at + (90_000 if n % 7 == 3 else 50) for n, at in enumerate(TRUE)])],
        expect=[{"rank": 0}, {"rank": 1, "offset_ns": 50, "residual_ns": 0, "drift_ppm": 0.0}],
    ),
    "the residual is the median distance": story(
        sources=[window(0, "a"), window(1, "b")],
        collective_waits=[*ends(0, TRUE[:5]),
                          *[ended(1, n, TRUE[n] + off) for n, off in enumerate((-30, -10, 0, 20, 40))]],
        expect=[{"rank": 0}, {"rank": 1, "offset_ns": 0, "residual_ns": 20, "drift_ppm": None, "matched_count": 5}],
    ),
    "windows of a node share its clock, the last of its ranks to leave tells": story(
        sources=[window(0, "a"), window(1, "a"), window(2, "b"), window(3, "b")],
        collective_waits=[*ends(0, TRUE), *ends(1, TRUE), *ends(2, [at + 70 for at in TRUE]),
                          *ends(3, [at + 90 for at in TRUE])],
        expect=[{"rank": 0, **HERE}, {"rank": 1, **HERE}, {"rank": 2, "offset_ns": 90}, {"rank": 3, "offset_ns": 90}],
    ),
    "without nodes each window has a clock of its own": story(
        sources=[window(0, None), window(1, None)],
        collective_waits=[*ends(0, TRUE), *ends(1, [at - 12 for at in TRUE])],
        expect=[{"rank": 0, "reference": "r0", **HERE}, {"rank": 1, "method": "collective_ends", "offset_ns": -12}],
    ),
    "what is not reliable, or lets ranks leave one by one, tells nothing": story(
        sources=[window(0, "a"), window(1, "b")],
        collective_waits=[
            *[row | {"is_reliable": False} for row in (*ends(0, TRUE), *ends(1, TRUE))],
            *[ended(rank, 50, 9, operation="broadcast") for rank in (0, 1)],
        ],
        expect=[{"rank": 0, **HERE}, {"rank": 1, **NONE, "matched_count": 0}],
    ),
    "a rank that met the reference in no collective is not aligned": story(
        sources=[window(0, "a"), window(1, "b"), window(2, "c")],
        collective_waits=[*ends(0, TRUE), *ends(1, TRUE), *[row | {"match_group": "group 1"} for row in ends(2, TRUE)]],
        expect=[{"rank": 0}, {"rank": 1, "offset_ns": 0}, {"rank": 2, **NONE}],
    ),
    "a window without a rank is on the clock of its node": story(
        sources=[window(0, "a"), window(None, "a", "x"), window(None, None, "y")],
        expect=[{"source_id": "r0", **HERE}, {"source_id": "x", **HERE}, {"source_id": "y", **NONE}],
    ),
    "superseded windows have no row": story(
        sources=[window(0, "a"), window(1, "b", status="superseded")], expect=[{"rank": 0, **HERE}]
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.clock_alignment", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_clock_alignment(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
