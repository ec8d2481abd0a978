"""Steps of windows without markers: the period of their launches, where they are cut, and when there are none."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

ADAM, NCCL = "multi_tensor_apply_kernel<adam>", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
LAYER = ["gemm", "bias", "gelu"]
BACK = ["gelu_grad", "gemm_grad", "bias_grad"]
FORWARD = ["embed", *LAYER * 4, "loss"]
STEP = [*FORWARD, *BACK * 4, NCCL, "clip", ADAM]
PERIOD = len(STEP)
NO_STEPS: Row = {"step_count": 0, "starts_ns": [], "end_ns": None, "thread_id": None}


def launched(names: Sequence[str], *, threads: Sequence[int] | None = None, **more: Any) -> dict[str, list[Row]]:
    """One launch every 10 ns, 4 ns long, each of which starts a kernel 100 ns later."""
    calls, kernels = [], []
    for number, name in enumerate(names):
        at, thread = 1_000 + 10 * number, threads[number] if threads else 1
        link = {"event_id": number, "correlation_id": number + 1, **more}
        calls.append({**link, "start_ns": at, "duration_ns": 4, "thread_id": thread})
        kernels.append({**link, "name": name, "start_ns": at + 100, "duration_ns": 5, "device_index": 0})
    return {"launch": calls, "kernel": kernels}


def at(launch: int) -> int:
    return 1_000 + 10 * launch


def steps(first: int, *lengths: int, **more: Any) -> Row:
    """Steps of so many launches each, from launch `first` on."""
    starts = [at(first + sum(lengths[:number])) for number in range(len(lengths))]
    end = at(first + sum(lengths) - 1) + 4
    return {"step_count": len(lengths), "starts_ns": starts, "end_ns": end, "reason": None, "thread_id": 1, **more}


def none(reason: str, **more: Any) -> Row:
    return {**NO_STEPS, "reason": reason, **more}


def mixed(names: Sequence[str], seed: int) -> list[str]:
    shuffled = list(names)
    random.Random(seed).shuffle(shuffled)
    return shuffled


def marker(text: str) -> Row:
    return {"event_id": 1, "text": text, "start_ns": 1_000, "duration_ns": 50}


# Before the first optimizer lies a step without its start, as far as anyone can tell.
WARM = [f"autotune_{number}" for number in range(20)]
EVALUATION = FORWARD * 3
DISTURBED = [*STEP * 6, *FORWARD, *EVALUATION, *STEP[len(FORWARD) :], *STEP * 6]
LOGGED = [name for number in range(20) for name in [*STEP, *(["log"] if number % 10 == 9 else [])]]
DEEP = ["embed", *[f"layer_{number}" for number in range(9)] * 30, "head", "loss"]
PLAIN = [f"part_{number}" for number in range(12)]
BACKWARD = [2 if name in (*BACK, NCCL) else 1 for name in STEP]

STORIES: dict[str, Story] = {
    "a step begins after the optimizer's last kernel": story(
        expect=[steps(0, *[PERIOD] * 10, period_launch_count=PERIOD, agreement_ratio=1.0,
                      launch_count=10 * PERIOD, covered_ratio=1.0)],
        **launched(STEP * 10),
    ),
    "a window that opens in mid step is cut at the same places": story(
        expect=[steps(PERIOD - 5, *[PERIOD] * 9)], **launched((STEP * 10)[5:])
    ),
    "without an optimizer after the last communication": story(
        expect=[steps(PERIOD - 3, *[PERIOD - 1] * 9)], **launched([n for n in STEP * 10 if n != ADAM][1:])
    ),
    "with neither as the launches begin to repeat": story(expect=[steps(0, *[12] * 10)], **launched(PLAIN * 10)),
    "what ran before the first step is in none": story(
        expect=[steps(20 + PERIOD, *[PERIOD] * 9, covered_ratio=9 * PERIOD / (20 + 10 * PERIOD))],
        **launched([*WARM, *STEP * 10]),
    ),
    "a step with an evaluation in it moves no other": story(
        expect=[steps(0, *[PERIOD] * 6, PERIOD + len(EVALUATION), *[PERIOD] * 6, agreement_ratio=1.0)],
        **launched(DISTURBED),
    ),
    "what comes every tenth step is no step": story(
        # The eleventh begins with a launch more, which no other step has.
        expect=[steps(0, *[PERIOD] * 10, PERIOD + 1, *[PERIOD] * 9, agreement_ratio=19 * PERIOD / (19 * PERIOD + 1))],
        **launched(LOGGED),
    ),
    "layers of a deep model are no steps": story(
        expect=[steps(0, *[len(DEEP)] * 9, agreement_ratio=1.0)], **launched(DEEP * 9)
    ),
    "two threads take turns": story(
        expect=[steps(0, *[PERIOD] * 10)], **launched(STEP * 10, threads=BACKWARD * 10)
    ),
    "too few repetitions": story(
        expect=[none("no_period", launch_count=7 * PERIOD)], **launched(STEP * 7)
    ),
    "no order": story(
        expect=[none("no_period", launch_count=10 * PERIOD)], **launched(mixed(STEP * 10, 3))
    ),
    "one kernel again and again": story(expect=[none("no_period")], **launched(["gemm"] * 100)),
    "an order of its own in every step": story(
        expect=[none("no_period")], **launched([n for seed in range(10) for n in mixed(STEP, seed)])
    ),
    "too few launches": story(expect=[none("too_few_launches", launch_count=63)], **launched(PLAIN * 5 + PLAIN[:3])),
    "no launches": story(expect=[none("no_launches", launch_count=0)]),
    "launches without kernels": story(
        expect=[none("no_launches", launch_count=0)], launch=launched(STEP * 10)["launch"]
    ),
    "marked steps": story(expect=[], annotation=[marker("ProfilerStep#3")], **launched(STEP * 10)),
    "other annotations mark no step": story(
        expect=[steps(0, *[PERIOD] * 10)], annotation=[marker("epoch 3")], **launched(STEP * 10)
    ),
    "each window for itself": story(
        source=[{"source_id": "s"}, {"source_id": "t"}],
        annotation=[marker("step 1") | {"source_id": "t"}],
        expect=[steps(0, *[PERIOD] * 10) | {"source_id": "s"}],
        **launched(STEP * 10),
    ),
}  # fmt: skip


def beside(names: Sequence[str], seed: int) -> Story:
    """A second thread launches kernels of its own at odd times, fewer than the first."""
    rng = random.Random(seed)
    told: list[tuple[str, int]] = []
    for name in names:
        told.append((name, 1))
        if rng.random() < 0.4:
            told.append((rng.choice("abc"), 2))
    own = [number for number, (_, thread) in enumerate(told) if thread == 1]
    starts = [at(own[number]) for number in range(0, len(names), PERIOD)]
    given = launched([name for name, _ in told], threads=[thread for _, thread in told])
    return story(
        expect=[{"step_count": len(starts), "starts_ns": starts, "thread_id": 1, "launch_count": len(names)}], **given
    )


STORIES["threads side by side: the one with most launches"] = beside(STEP * 10, 5)


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.step_periods", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_step_periods(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
