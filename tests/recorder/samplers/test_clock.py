"""The two clocks, paired and watched."""

from __future__ import annotations

import time

from tracelake.recorder.samplers.clock import METRICS, Clock, pair

SECOND_NS = 1_000_000_000


def test_a_pair_is_of_one_instant() -> None:
    before = time.monotonic_ns(), time.time_ns()
    monotonic_ns, real_ns, uncertainty_ns = pair()
    after = time.monotonic_ns(), time.time_ns()
    assert before[0] <= monotonic_ns <= after[0]
    assert before[1] <= real_ns <= after[1]
    assert 0 <= uncertainty_ns < 1_000_000


def test_pairs_agree() -> None:
    first, second = pair(), pair()
    drift_ns = (second[1] - second[0]) - (first[1] - first[0])
    assert abs(drift_ns) <= first[2] + second[2] + 100_000


def test_the_narrowest_bracket_counts() -> None:
    instants = iter([0, 1_000, 2_000, 2_101, 3_000, 9_000])
    unix = iter([50, 60, 70])
    assert pair(3, lambda: next(instants), lambda: next(unix)) == (2_050, 60, 51)


def test_a_step_of_the_wall_clock_shows_and_later_anchors_do_not_hide_it() -> None:
    now_ns, ahead_ns = [7 * SECOND_NS], [100 * SECOND_NS]
    sampler = Clock(100 * SECOND_NS, lambda: now_ns[0], lambda: now_ns[0] + ahead_ns[0], node_id="n")

    def step() -> list[float | None]:
        return [row.value for row in sampler.sample() if row.metric == "clock_step"]

    assert step() == [0.0]
    now_ns[0] += 9 * SECOND_NS
    assert step() == []  # too soon
    now_ns[0] += SECOND_NS
    ahead_ns[0] -= 2 * SECOND_NS
    assert step() == [-2.0 * SECOND_NS]
    now_ns[0] += 10 * SECOND_NS
    assert step() == [-2.0 * SECOND_NS]
    now_ns[0] -= SECOND_NS  # does not happen to a monotonic clock, and must not silence the sampler
    assert step() == [-2.0 * SECOND_NS]


def test_readings_with_the_real_clocks() -> None:
    monotonic_ns, real_ns, _ = pair()
    sampler = Clock(real_ns - monotonic_ns)
    rows = sampler.sample()
    assert {(row.entity_kind, row.metric, row.unit) for row in rows} == {row[:3] for row in METRICS}
    values = {row.metric: row.value for row in rows}
    assert abs(values["clock_step"] or 0.0) < 0.05 * SECOND_NS
    bound = next(row for row in rows if row.metric == "clock_error_bound")
    assert bound.reason in {None, "clock_unsynchronized", "no_permission"}
    assert bound.value is None or bound.value >= 0
    assert sampler.sample() == []
    sampler.close()
