"""What-if: what a step loses when the most own work of any rank gets less."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def did(rank: int | None, step: int, own: int, peer: int | None, duration: int = 200, **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "rank": rank, "node_id": f"n{(rank or 0) // 2}", "step_name": "step"}
    times = {"step_occurrence": step, "duration_ns": duration, "own_work_ns": own, "peer_own_work_ns": peer}
    return {**row, **times, **more}


def loads(rank: int | None, step: int, loading: int | None, **more: Any) -> Row:
    row = {"source_id": f"r{rank}", "rank": rank, "step_name": "step", "step_occurrence": step}
    return {**row, "data_loading_ns": loading, **more}


def slow(rank: int, verdict: str = "rank") -> Row:
    return {"rank": rank, "node_id": f"n{rank // 2}", "verdict": verdict}


def told(scenario: str, subject: str, saved: int, baseline: int = 400, **more: Any) -> Row:
    row = {"scenario": scenario, "subject": subject, "baseline_ns": baseline, "predicted_ns": baseline - saved}
    return {**row, "saved_ratio": saved / baseline, **more}


def job(own: list[int], loading: list[int | None] | None = None) -> dict[str, list[Row]]:
    """Two steps of 200 ns alike."""
    peer = sorted(own)[(len(own) - 1) // 2]
    return {
        "rank_steps": [did(rank, step, each, peer) for step in (0, 1) for rank, each in enumerate(own)],
        "step_ledger": [loads(rank, step, each) for step in (0, 1)
                        for rank, each in enumerate(loading or [0] * len(own))],
    }  # fmt: skip


STORIES: dict[str, Story] = {
    "the slowest rank as its peers saves down to the next": story(
        **job([100, 110, 150, 130]), stragglers=[slow(2), slow(3)],
        expect=[told("all_ranks_as_peers", "*", 80, step_name="step", step_count=2),
                told("communication_hidden", "*", 100),
                told("data_loading_free", "*", 0), told("rank_as_peers", "2", 40), told("rank_as_peers", "3", 0)],
    ),
    "a node as its peers": story(
        **job([100, 110, 150, 130]), stragglers=[slow(2, "node"), slow(3, "node")],
        expect=[told("all_ranks_as_peers", "*", 80), told("communication_hidden", "*", 100),
                told("data_loading_free", "*", 0), told("node_as_peers", "n1", 80), told("rank_as_peers", "2", 40),
                told("rank_as_peers", "3", 0)],
    ),
    "data loading of the rank that loads most, until another does most": story(
        **job([100, 160], [10, 90]),
        # 160 - 90 is less than 100 - 10: the other then sets the pace.
        expect=[told("all_ranks_as_peers", "*", 120), told("communication_hidden", "*", 80),
                told("data_loading_free", "*", 140)],
    ),
    "a process alone can hide its communication and load faster": story(
        rank_steps=[did(None, 0, 120, None, reason="rank_missing")], step_ledger=[loads(None, 0, 30)],
        expect=[told("all_ranks_as_peers", "*", 0, 200), told("communication_hidden", "*", 80, 200),
                told("data_loading_free", "*", 30, 200)],
    ),
    "processes whose ranks no one knows are not put together": story(
        rank_steps=[did(None, 0, 120, None, reason="rank_missing", source_id=source) for source in ("a", "b")],
        step_ledger=[loads(None, 0, 30, source_id=source) for source in ("a", "b")], expect=[],
    ),
    "steps without own work are left out": story(
        rank_steps=[did(0, 0, 100, 100), did(1, 0, 140, 100),
                    *[did(rank, 1, 0, None, reason="uncovered") | {"own_work_ns": None} for rank in (0, 1)]],
        step_ledger=[loads(rank, step, None) for rank in (0, 1) for step in (0, 1)],
        expect=[told("all_ranks_as_peers", "*", 40, 200, step_count=1), told("communication_hidden", "*", 60, 200),
                told("data_loading_free", "*", 0, 200)],
    ),
    "only the name with most time": story(
        **(job([100, 110]) | {"rank_steps": [*job([100, 110])["rank_steps"],
                                             *[did(rank, 0, 5, 5, 9, step_name="batch") for rank in (0, 1)]]}),
        expect=[told("all_ranks_as_peers", "*", 20), told("communication_hidden", "*", 180),
                told("data_loading_free", "*", 0)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(rows: Rows) -> Told:
    return Told(rows, "aggregates.what_if", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_what_if(made: Told, title: str) -> None:
    assert made.got(title) == made.want(title)
