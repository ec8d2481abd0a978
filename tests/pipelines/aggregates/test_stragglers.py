"""Slow ranks and nodes, and costs that add up to what the job lost."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def rank(number: int, excess: int, is_slow: bool | None = True, node: str | None = "a", **more: Any) -> Row:
    row = {"rank": number, "node_id": node, "excess_ns": excess, "is_slow": is_slow, "step_count": 20}
    counts = {"ranks_seen_count": 4, "ranks_expected_count": 8, "slowdown_ratio": excess / 1_000, "cause": "compute"}
    return {**row, **counts, "peer_own_work_ns": 1_000, **more}


FINE = [rank(number, 0, False) for number in (0, 1, 2)]

STORIES: dict[str, Story] = {
    "a slow rank costs every rank its excess in every step": story(
        rank_stats=[*FINE, rank(3, 250)],
        expect=[{"rank": 3, "node_id": "a", "verdict": "rank", "slowdown_ratio": 0.25, "excess_ns": 250,
                 "cost_sum_ns": 250 * 20 * 4, "step_count": 20, "ranks_seen_count": 4, "ranks_expected_count": 8,
                 "cause": "compute"}],
    ),
    "who is not slow, or not judged, has no row": story(
        rank_stats=[*FINE, rank(3, 250, None, reason="too_few_steps")], expect=[]
    ),
    "all ranks of a node: the node": story(
        rank_stats=[*FINE, rank(3, 100, node="b"), rank(4, 100, node="b")],
        expect=[{"rank": 3, "verdict": "node", "cost_sum_ns": 4_000}, {"rank": 4, "verdict": "node"}],
    ),
    "all but one are no node": story(
        rank_stats=[*FINE, rank(3, 100, node="b"), rank(4, 100, node="b"), rank(5, 0, False, node="b")],
        expect=[{"rank": 3, "verdict": "rank"}, {"rank": 4, "verdict": "rank"}],
    ),
    "a node of one rank is a rank": story(
        rank_stats=[*FINE, rank(3, 100, node="b")], expect=[{"rank": 3, "verdict": "rank"}]
    ),
    "ranks of which no one knows the node": story(
        rank_stats=[*FINE, rank(3, 100, node=None), rank(4, 100, node=None)],
        expect=[{"rank": 3, "verdict": "rank"}, {"rank": 4, "verdict": "rank"}],
    ),
    "what slow ranks have in common is shared; the rest is the slower one's": story(
        # 100 in common by three: 33 each; 50 more of two: 25 each; 50 more of one.
        rank_stats=[*FINE, rank(3, 150), rank(4, 200), rank(5, 100)],
        expect=[{"rank": 3, "cost_sum_ns": (33 + 25) * 80}, {"rank": 4, "cost_sum_ns": (33 + 25 + 50) * 80},
                {"rank": 5, "cost_sum_ns": 33 * 80}],
    ),
    "attempts count apart": story(
        rank_stats=[*FINE, rank(3, 100), rank(3, 100, attempt=1)],
        expect=[{"attempt": 0, "cost_sum_ns": 8_000}, {"attempt": 1, "cost_sum_ns": 8_000}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.stragglers", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_stragglers(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
