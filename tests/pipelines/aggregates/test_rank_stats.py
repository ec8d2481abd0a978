"""Each rank over all steps: excess, noise, cause, and the verdict or why there is none."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

MS = 1_000_000
CLASSES = ("compute_ns", "memcpy_ns", "memset_ns", "runtime_ns", "data_loading_ns", "host_work_ns", "other_ns")


def steps(rank: int, own: int, excess: int | None, count: int = 20, **more: Any) -> list[Row]:
    """Steps of a rank, in milliseconds; of three in turn one has less excess by `wobble`, one more."""
    wobble = more.pop("wobble", 0)
    row = {"source_id": f"r{rank}", "rank": rank, "node_id": "a", "step_name": "step", "duration_ns": 120 * MS, **more}
    return [
        {
            **row,
            "step_occurrence": n,
            "own_work_ns": own * MS,
            "peer_own_work_ns": None if excess is None else (own - excess) * MS,
            "excess_ns": None if excess is None else (excess + wobble * (n % 3 - 1)) * MS,
            "ranks_seen_count": 4,
        }
        for n in range(count)
    ]


def ledger(rank: int, count: int = 20, **parts: int) -> list[Row]:
    row = {"source_id": f"r{rank}", "rank": rank, "step_name": "step", "duration_ns": 120 * MS}
    given = {name: parts.get(name.removesuffix("_ns"), 0) * MS for name in CLASSES}
    return [{**row, **given, "step_occurrence": n} for n in range(count)]


def windows(ranks: int, world: int | None = None) -> list[Row]:
    row = {"world_size": world or ranks, "window_start_ns": 0, "window_end_ns": 10**9}
    return [{"source_id": f"r{rank}", "rank": rank, **row} for rank in range(ranks)]


def job(*own: int, count: int = 20, last: dict[str, Any] | None = None, parts: list[dict[str, int]] | None = None,
        **given: Any) -> dict[str, list[Row]]:  # fmt: skip
    """Ranks with so much own work each; the last one's steps may have more to say."""
    peer, ranks = sorted(own)[(len(own) - 1) // 2], len(own)
    told = [steps(rank, each, each - peer, count, **(last or {} if rank == ranks - 1 else {}))
            for rank, each in enumerate(own)]  # fmt: skip
    split = parts or [{"compute": each} for each in own]
    return {
        "sources": windows(ranks, given.pop("world", None)),
        "rank_steps": [row for each in told for row in each],
        "step_ledger": [row for rank, each in enumerate(split) for row in ledger(rank, count, **each)],
        **given,
    }


def verdicts(*slow: bool | None, **last: Any) -> list[Row]:
    rows: list[Row] = [{"rank": rank, "is_slow": each} for rank, each in enumerate(slow)]
    return [*rows[:-1], rows[-1] | last]


def device(rank: int, clock: float | None, throttled: float | None = 0.0) -> tuple[Row, Row]:
    owner = {"source_id": f"r{rank}", "rank": rank, "device_id": f"d{rank}"}
    read = {"device_id": f"d{rank}", "clock_median_hz": clock, "throttled_ratio": throttled, "memory_reason": "x"}
    return owner, read


def sampled(*clocks: float | None, **more: Any) -> dict[str, list[Row]]:
    both = [device(rank, clock, **(more if rank == len(clocks) - 1 else {})) for rank, clock in enumerate(clocks)]
    return {"devices": [owner for owner, _ in both], "device_samples": [read for _, read in both]}


SLOW = {
    "a rank that does a fifth more than its peers": story(
        **job(100, 100, 100, 120),
        expect=verdicts(
            False, False, False, True, excess_ns=20 * MS, slowdown_ratio=0.2, spread_ns=0, step_count=20,
            own_work_median_ns=120 * MS, peer_own_work_ns=100 * MS, cause="compute", cause_excess_ns=20 * MS,
            reason=None, ranks_seen_count=4, ranks_expected_count=4, node_id="a", step_name="step", is_host_bound=False,
            clock_ratio=None, throttled_ratio=None,
        ),
    ),
    "all equal: none": story(**job(100, 100, 100), expect=verdicts(False, False, False, excess_ns=0, cause=None)),
    "five in a hundred is not yet slow": story(**job(100, 100, 105), expect=verdicts(False, False, False)),
    "six is": story(**job(100, 100, 106), expect=verdicts(False, False, True)),
    "an excess within three times its own noise is noise": story(
        **job(100, 100, 120, last={"wobble": 5}),
        expect=verdicts(False, False, False, spread_ns=7_413_000, excess_ns=20 * MS),
    ),
    "and beyond it is none": story(
        **job(100, 100, 120, last={"wobble": 4}), expect=verdicts(False, False, True, spread_ns=5_930_400)
    ),
    "a rank that is slow in a third of the steps is not slow": story(
        **job(100, 100, 100, last={"wobble": 60}), expect=verdicts(False, False, False, excess_ns=0)
    ),
}  # fmt: skip

CAUSES = {
    "the class that holds the excess": story(
        **job(100, 100, 130, parts=[{"compute": 60, "data_loading": 5}] * 2 + [{"compute": 60, "data_loading": 33}]),
        expect=verdicts(False, False, True, cause="data_loading", cause_excess_ns=28 * MS),
    ),
    "an excess over several classes is mixed": story(
        **job(100, 100, 130, parts=[{"compute": 60}] * 2 + [{"compute": 70, "memcpy": 10, "other": 10}]),
        expect=verdicts(False, False, True, cause="mixed", cause_excess_ns=10 * MS),
    ),
    "a lower clock than that of the peers": story(
        **job(100, 100, 120, **sampled(2e9, 2e9, 1.5e9)),
        expect=verdicts(False, False, True, cause="throttled", clock_ratio=0.75, throttled_ratio=0.0),
    ),
    "a clock that heat lowered": story(
        **job(100, 100, 120, **sampled(None, None, None, throttled=0.9)),
        expect=verdicts(False, False, True, cause="throttled", clock_ratio=None, throttled_ratio=0.9),
    ),
    "a lower clock is no cause of what the host does": story(
        **job(100, 100, 130, parts=[{"compute": 60}] * 2 + [{"compute": 60, "host_work": 30}],
              **sampled(2e9, 2e9, 1.5e9)),
        expect=verdicts(False, False, True, cause="host_work"),
    ),
    "longer calls count although communication hides the others' work": story(
        **job(100, 100, 110, last={"launch_call_ns": 12 * MS},
              parts=[{"runtime": 2, "host_work": 20}] * 2 + [{"runtime": 9, "host_work": 50}]),
        expect=verdicts(False, False, True, cause="runtime", cause_excess_ns=12 * MS, is_host_bound=True),
    ),
}  # fmt: skip

BUBBLES = {
    "the median step's exposed sends and receives": story(
        **(job(100, 100, count=21) | {"step_ledger": [
            *[row | {"exposed_p2p_ns": (24 if n < 11 else 60) * MS} for n, row in enumerate(ledger(0, 21))],
            # A step without any has none of it.
            *[row | {"exposed_p2p_ns": 12 * MS if n < 10 else None} for n, row in enumerate(ledger(1, 21))],
        ]}),
        expect=[{"rank": 0, "bubble_ratio": 0.2}, {"rank": 1, "bubble_ratio": 0.0}],
    ),
    "where none ran there is no number": story(
        **job(100, 100), expect=[{"rank": 0, "bubble_ratio": None}, {"rank": 1, "bubble_ratio": None}]
    ),
}  # fmt: skip

WITHHELD = {
    "one rank has no peers": story(
        sources=windows(1), rank_steps=steps(0, 100, None, reason="one_rank"), step_ledger=ledger(0, compute=100),
        expect=[{"is_slow": None, "reason": "one_rank", "excess_ns": None, "slowdown_ratio": None, "step_count": 0,
                 "own_work_median_ns": 100 * MS, "ranks_seen_count": 1}],
    ),
    "two of five ranks are under half": story(
        **job(100, 150, world=5),
        expect=verdicts(None, None, reason="too_few_ranks", ranks_seen_count=2, ranks_expected_count=5),
    ),
    "two of four are half": story(**job(100, 150, world=4), expect=verdicts(False, True, reason=None)),
    "nineteen steps are too few": story(
        **job(100, 100, 150, count=19), expect=verdicts(None, None, None, reason="too_few_steps", step_count=19)
    ),
    "where the host sets the pace an excess must lie in one class": story(
        **job(100, 100, 130, parts=[{"compute": 20}] * 2 + [{"compute": 30, "memcpy": 10, "other": 10}]),
        expect=verdicts(False, False, None, reason="host_bound", cause="mixed", is_host_bound=True),
    ),
    "and where it does, the rank is slow there too": story(
        **job(100, 100, 130, parts=[{"compute": 20, "host_work": 60}] * 2 + [{"compute": 20, "host_work": 90}]),
        expect=verdicts(False, False, True, reason=None, cause="host_work", is_host_bound=True),
    ),
    "steps that were not compared do not count": story(
        sources=windows(2),
        rank_steps=[*steps(0, 100, 0), *steps(1, 100, 0),
                    *[row | {"rank": None, "source_id": "x", "reason": "rank_missing"} for row in steps(7, 900, None)]],
        step_ledger=[*ledger(0, compute=100), *ledger(1, compute=100)],
        expect=verdicts(False, False),
    ),
    "of several names the one with most time is judged": story(
        **(job(100, 100, 150) | {"rank_steps": [
            *job(100, 100, 150)["rank_steps"],
            *[row | {"step_name": "batch", "duration_ns": MS} for row in job(1, 1, 9)["rank_steps"]],
        ]}),
        expect=verdicts(False, False, True, step_name="step", excess_ns=50 * MS),
    ),
}  # fmt: skip
STORIES: dict[str, Story] = {**SLOW, **CAUSES, **BUBBLES, **WITHHELD}


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.rank_stats", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_rank_stats(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
