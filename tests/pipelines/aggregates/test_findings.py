"""What is wrong in words: each rule by hand, with what must keep it quiet."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

from tracelake.pipelines.parameters import Parameters

MS = 1_000_000
STEPS = 10
STRAGGLER: Row = {
    "node_id": "n", "rank": 3, "step_name": "step", "verdict": "rank", "slowdown_ratio": 0.25, "excess_ns": 20 * MS,
    "cost_sum_ns": 800 * MS, "step_count": 40, "ranks_seen_count": 4, "ranks_expected_count": 4, "cause": "compute",
}  # fmt: skip
SLOW: Row = {
    "step_name": "step", "step_occurrence": 7, "kind": "slow", "duration_ns": 300 * MS, "median_ns": 100 * MS,
    "excess_ns": 200 * MS, "cause": "data_loading", "rank_count": 2, "confidence": 0.9, "evidence": ["a", "b", "c"],
}  # fmt: skip
PRICES = Parameters(gpu_hour_prices={"p5": 3600.0})


def usual(spent: dict[str, int], ranks: int = 2, steps: int = STEPS) -> dict[str, list[Row]]:
    """Usual steps of 100 ms, on each rank with so many milliseconds of a class or a cause of idle time."""
    ledger, idle, marks = [], [], []
    for rank in range(ranks):
        for number in range(steps):
            at: Row = {"source_id": f"s{rank}", "rank": rank, "step_name": "step", "step_occurrence": number}
            start = number * 1_000 * MS
            parts = {f"{name}_ns": spent.get(name, 0) * MS for name in ("exposed_comm", "memcpy")}
            ledger.append(
                {**at, "start_ns": start, "duration_ns": 100 * MS, "status": "complete", "compute_ns": 50 * MS, **parts}
            )
            marks.append(
                {**at, "name": "step", "is_step": True, "annotation_id": number, "start_ns": start, "end_ns": start + 1}
            )
            idle += [{**at, "scope": "step", "device_id": f"d{rank}", "cause": cause, "idle_ns": ms * MS}
                     for cause, ms in spent.items() if cause not in ("exposed_comm", "memcpy")]  # fmt: skip
    times = [{"step_name": "step", "step_occurrence": number, "duration_ns": 100 * MS, "kind": "usual", "score": 0.0,
              "step_group": "training", "rank_count": ranks} for number in range(steps)]  # fmt: skip
    for mark in marks:
        del mark["step_name"]
    return {"step_ledger": ledger, "annotations": marks, "step_times": times, "idle_causes": idle}


def waiting(*sent: int, comm: int = 0) -> dict[str, list[Row]]:
    """Usual steps of 100 ms in which each rank waits so long in sends and receives, and in a collective besides."""
    given = usual({}, ranks=len(sent))
    for row in given["step_ledger"]:
        mine = sent[row["rank"]]
        row |= {"exposed_comm_ns": (comm + mine) * MS, "exposed_p2p_ns": mine * MS}
    return given


def without(given: dict[str, list[Row]], table: str, **of: Any) -> dict[str, list[Row]]:
    """The same without the rows of a table that have these values."""
    return given | {table: [row for row in given[table] if any(row[name] != value for name, value in of.items())]}


def few(*durations: int) -> dict[str, list[Row]]:
    """So many steps, too few to judge, of so many milliseconds, each with 30 of data loading on both ranks."""
    given = usual({"data_loading": 30}, steps=len(durations))
    unjudged = {"kind": "withheld", "score": None, "reason": "too_few_steps"}
    times = [row | unjudged | {"duration_ns": ms * MS} for row, ms in zip(given["step_times"], durations, strict=True)]
    return given | {"step_times": times}


def device(capability: str | None, name: str = "NVIDIA", device_id: str = "d") -> Row:
    return {"source_id": device_id, "device_id": device_id, "name": name, "compute_capability": capability}


def kernels(*named: tuple[str, str, str, bool, int, int]) -> list[Row]:
    return [
        {"name": name, "short_name": name, "kernel_class": class_, "precision": precision, "is_tensor_core": tensor,
         "duration_sum_ns": ms * MS, "kernel_count": count}
        for name, class_, precision, tensor, ms, count in named
    ]  # fmt: skip


STORIES: dict[str, Story] = {
    "a slow rank costs what all ranks lose": story(
        stragglers=[STRAGGLER], job_summary=[{"device_time_ns": 8_000 * MS}], jobs=[{"instance_type": "p5"}],
        expect=[{"finding_number": 1, "rule": "slow_rank", "cause": "compute", "guilty_rank": 3, "guilty_node_id": "n",
                 "lost_ns": 800 * MS, "lost_ratio": 0.1, "lost_cost": 0.8, "confidence": 1.0, "step_count": 40,
                 "title": "Rank 3 on n: 25.0 % more work of its own per step than its peers",
                 "evidence": ["aggregates.stragglers WHERE job_id = 'a slow rank costs what all ranks lose' AND attempt"
                              " = 0 AND rank = 3: slowdown_ratio 0.25, excess_ns 20000000 in each of 40 steps"]}],
    ),
    "ranks of one node are one finding": story(
        stragglers=[STRAGGLER | {"verdict": "node", "rank": rank, "cause": None} for rank in (2, 3)],
        expect=[{"rule": "slow_node", "cause": "mixed", "guilty_rank": None, "guilty_node_id": "n",
                 "lost_ns": 1_600 * MS, "lost_cost": None, "lost_ratio": None}],
    ),
    "missing ranks lower the confidence": story(
        stragglers=[STRAGGLER | {"ranks_expected_count": 8}], expect=[{"confidence": 0.5}],
    ),
    "slow steps of one cause and rank are one finding": story(
        outlier_steps=[SLOW, SLOW | {"step_occurrence": 9, "excess_ns": 100 * MS, "duration_ns": 200 * MS},
                       SLOW | {"step_occurrence": 4, "cause": "compute", "guilty_rank": 1, "excess_ns": 50 * MS},
                       SLOW | {"step_occurrence": 5, "kind": "fast", "cause": None, "excess_ns": -50 * MS}],
        expect=[{"finding_number": 1, "cause": "data_loading", "step_count": 2, "first_step_occurrence": 7,
                 "last_step_occurrence": 9, "lost_ns": 600 * MS, "guilty_rank": None, "confidence": 0.9,
                 "title": "2 steps took up to 3.0 times the usual time: data loading"},
                {"finding_number": 2, "cause": "compute", "step_count": 1, "lost_ns": 100 * MS, "guilty_rank": 1,
                 "title": "Step 4 took up to 3.0 times the usual time: compute on rank 1"}],
    ),
    "data loading that holds every step": story(
        **usual({"data_loading": 5}),
        expect=[{"rule": "usual_step", "cause": "data_loading", "step_count": STEPS, "lost_ns": 2 * STEPS * 5 * MS,
                 "title": "5.0 % of every step is lost on every rank: data loading"}],
    ),
    "below the least share nothing is said": story(**usual({"data_loading": 4, "exposed_comm": 6}), expect=[]),
    "of one rank alone it is not the usual step": story(
        **without(usual({"data_loading": 50}), "idle_causes", source_id="s0"), expect=[],
    ),
    "of two ranks of three it is": story(
        **without(usual({"data_loading": 50}, ranks=3), "idle_causes", source_id="s0"),
        expect=[{"cause": "data_loading", "lost_ns": 3 * STEPS * 50 * MS}],
    ),
    "communication that one rank of two does not wait for is a wait": story(
        **{**usual({"exposed_comm": 30}), "step_ledger": [
            row | ({"exposed_comm_ns": 2 * MS} if row["rank"] else {})
            for row in usual({"exposed_comm": 30})["step_ledger"]]},
        expect=[],
    ),
    "communication of all": story(
        **usual({"exposed_comm": 30}), expect=[{"cause": "exposed_comm", "lost_ns": 2 * STEPS * 30 * MS}],
    ),
    "unusual steps are left out": story(
        **{**usual({"memcpy": 30}), "step_times": [
            row | {"kind": "slow", "score": 9.0} for row in usual({})["step_times"]]},
        expect=[],
    ),
    "too few steps to judge, near their median": story(
        **few(100, 101, 99, 120, 500),
        expect=[{"rule": "usual_step", "cause": "data_loading", "step_count": 4, "lost_ns": 2 * 4 * 30 * MS,
                 "confidence": 0.5, "title": "28.6 % of every step is lost on every rank: data loading"}],
    ),
    "two of them say nothing": story(**few(100, 101, 500), expect=[]),
    "Python before short kernels: bound by launches": story(
        **usual({"python_or_other": 20}), kernel_stats=kernels(("add", "elementwise", "fp16", False, 1, 100)),
        expect=[{"cause": "launch_bound"}],
    ),
    "Python before long kernels": story(
        **usual({"python_or_other": 20}), kernel_stats=kernels(("add", "elementwise", "fp16", False, 100, 100)),
        expect=[{"cause": "python_or_other"}],
    ),
    "fp32 products are at stake, not lost": story(
        kernel_stats=kernels(("sgemm", "gemm", "fp32", False, 30, 3), ("sconv", "conv", "fp32", False, 10, 3),
                             ("hgemm", "gemm", "fp16", True, 50, 3), ("add", "elementwise", "fp32", False, 10, 3),
                             ("nccl", "communication", "fp32", False, 900, 3)),
        devices=[device("12.0"), device("9.0", device_id="e")],
        expect=[{"rule": "precision", "cause": "precision", "severity": "info", "lost_ns": 40 * MS,
                 "title": "40.0 % of compute kernel time are fp32 products without tensor cores: 0.040 s that could "
                          "run as tf32 or bf16"}],
    ),
    "Volta and Turing have neither tf32 nor bf16": story(
        kernel_stats=kernels(("sgemm", "gemm", "fp32", False, 30, 3)),
        devices=[device("9.0"), device("7.5", device_id="e")],
        expect=[{"title": "100.0 % of compute kernel time are fp32 products without tensor cores: 0.030 s that could "
                          "run as fp16; these devices have neither tf32 nor bf16"}],
    ),
    "Pascal has no tensor cores": story(
        kernel_stats=kernels(("sgemm", "gemm", "fp32", False, 30, 3)), devices=[device("6.0")], expect=[],
    ),
    "AMD counts otherwise": story(
        kernel_stats=kernels(("sgemm", "gemm", "fp32", False, 30, 3)), devices=[device("9.4", "AMD Instinct MI300X")],
        expect=[{"title": "100.0 % of compute kernel time are fp32 products without tensor cores: 0.030 s that could "
                          "run as tf32, bf16 or fp16, whichever the device has"}],
    ),
    "tf32 products on tensor cores are none": story(
        devices=[device("8.0")],
        kernel_stats=kernels(("sgemm", "gemm", "tf32", True, 30, 3), ("tgemm", "gemm", "fp32", True, 30, 3)), expect=[],
    ),
    "memory that grows": story(
        device_samples=[{"device_id": "d", "rank": 1, "node_id": "n", "is_memory_leak": True, "memory_growth_bytes": 9,
                         "memory_growth_ratio": 0.12, "memory_rising_ratio": 0.95},
                        {"device_id": "e", "rank": 2, "is_memory_leak": False}, {"device_id": "f", "rank": 3}],
        expect=[{"cause": "memory_leak", "guilty_rank": 1, "guilty_node_id": "n", "lost_ns": None, "confidence": 0.95,
                 "title": "Memory of rank 1 grew steadily by 12.0 % of the device"}],
    ),
    "a process that was killed": story(
        sources=[{"source_id": "s0", "rank": 0, "status": "complete"},
                 {"source_id": "s1", "rank": 1, "status": "interrupted", "node_id": "n"}],
        expect=[{"cause": "killed_process", "guilty_rank": 1, "guilty_node_id": "n"}],
    ),
    "steps that the next attempt does again": story(
        step_ledger=[{"source_id": f"s{attempt}", "attempt": attempt, "rank": 0, "step_name": "step",
                      "step_index": index,
                      "step_occurrence": index - first, "start_ns": index, "duration_ns": 10 * MS, "status": "complete"}
                     for attempt, first, last in ((0, 0, 8), (1, 6, 12)) for index in range(first, last)],
        expect=[{"cause": "redone_steps", "step_count": 2, "first_step_occurrence": 6, "lost_ns": 20 * MS,
                 "title": "2 steps were lost and done again by the next attempt: 6 to 7"}],
    ),
    "numbers that start again with each epoch tell nothing": story(
        step_ledger=[{"source_id": f"s{attempt}", "attempt": attempt, "rank": 0, "step_name": "step",
                      "step_index": number % 4, "step_occurrence": number, "start_ns": number, "duration_ns": 10 * MS,
                      "status": "complete"} for attempt in (0, 1) for number in range(8)],
        expect=[],
    ),
    "stages that wait for each other": story(
        **waiting(30, 10, 20), job_summary=[{"device_time_ns": 6_000 * MS}],
        expect=[{"rule": "pipeline_bubbles", "cause": "pipeline_bubble", "severity": "warn", "guilty_rank": None,
                 "step_count": STEPS, "first_step_occurrence": 0, "last_step_occurrence": STEPS - 1,
                 "lost_ns": STEPS * 60 * MS, "lost_ratio": 0.1, "step_name": "step",
                 "title": "Pipeline bubbles: 20.0 % of every step, 0.600 s in all, wait in sends and receives; most "
                          "rank 0 (30.0 %), least rank 1 (10.0 %)",
                 "evidence": [f"aggregates.step_ledger WHERE job_id = 'stages that wait for each other' AND attempt ="
                              f" 0 AND step_name = 'step' AND rank = {rank}: exposed_p2p_ns {ms} of 1000000000 ns of "
                              "the usual steps" for rank, ms in ((0, 300_000_000), (1, 100_000_000))]}],
    ),
    "waits for a stage are not said a second time as communication": story(
        **waiting(30, 10, comm=6), expect=[{"rule": "pipeline_bubbles", "lost_ns": STEPS * 40 * MS}],
    ),
    "collectives beside them are": story(
        **waiting(10, 10, comm=30),
        expect=[{"rule": "usual_step", "cause": "exposed_comm", "lost_ns": 2 * STEPS * 30 * MS},
                {"rule": "pipeline_bubbles", "lost_ns": 2 * STEPS * 10 * MS}],
    ),
    "a few sends belong to every pipeline": story(**waiting(6, 7), expect=[]),
    "sends that compute hides are no bubbles": story(**waiting(0, 0, comm=5), expect=[]),
    "nothing known, nothing said": story(expect=[]),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.findings", STORIES, PRICES)


@pytest.mark.parametrize("title", STORIES)
def test_findings(told: Told, title: str) -> None:
    got, want = told.got(title), told.want(title)
    for name, found in got.items():
        for row in found:
            if "evidence" in row:  # the twin has its own job id
                row["evidence"] = [text.replace(title + name, title) for text in row["evidence"]]
    assert got == want
