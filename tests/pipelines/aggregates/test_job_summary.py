"""The figures that a page opens with: sums, worst status, ranks, steps and samples."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

LOW = "low_launch_coverage"


def window(source_id: str, rank: int | None = None, start: int = 0, end: int = 100, **more: Any) -> Row:
    row = {"source_id": source_id, "rank": rank, "window_start_ns": start, "window_end_ns": end}
    return {**row, **more}


def ledger(length: int, *parts: int | None, scope: str = "window", **more: Any) -> Row:
    names = (
        "compute_ns",
        "exposed_comm_ns",
        "exposed_mem_ns",
        "idle_ns",
        "sync_idle_ns",
        "comm_ns",
        "overlapped_comm_ns",
    )
    given = parts or [None] * len(names)
    return {"scope": scope, "device_id": "d", "window_ns": length, **dict(zip(names, given, strict=True)), **more}


def step(occurrence: int, duration: int, status: str = "complete", **more: Any) -> Row:
    row = {"step_name": "step", "step_occurrence": occurrence, "duration_ns": duration, "status": status}
    return {**row, **more}


def sample(node: str, value: float | None, kind: str = "core") -> Row:
    metric = "cpu_util_ratio" if kind == "core" else "gpu_util_ratio"
    at = {"source_id": "s", "at_ns": 50}
    return {"entity_kind": kind, "metric": metric, "node_id": node, "value": value, "is_valid": value is not None, **at}


def compared(rank: int, is_slow: bool | None, reason: str | None = None) -> Row:
    return {"rank": rank, "is_slow": is_slow, "reason": reason}


def judged(kind: str, score: float | None = 1.0, group: str = "training") -> Row:
    reason = "too_few_steps" if kind == "withheld" else None
    return {"step_name": "step", "kind": kind, "score": score, "step_group": group, "reason": reason}


def period(source_id: str, launches: int, agreement: float) -> Row:
    return {"source_id": source_id, "period_launch_count": launches, "agreement_ratio": agreement}


def unknown_period(source_id: str, reason: str = "no_period") -> Row:
    """Something comes back after seven launches, not evenly enough."""
    return {**period(source_id, 7, 0.5), "reason": reason}


def one(expect: Row, **given: list[Row]) -> Story:
    return story(**({"sources": [window("s")], "jobs": [{}]} | given), expect=[expect])


WINDOWS = {
    "the worst window gives the status": one(
        {"status": "incomplete", "source_count": 3, "started_ns": 5, "ended_ns": 300, "node_count": 2},
        sources=[window("a", start=50, status="complete", node_id="n"), window("b", status="incomplete", start=5),
                 window("c", status="running", start=90, end=300, node_id="m")],
    ),
    "degraded is worse than incomplete": one(
        {"status": "degraded"}, sources=[window("a", status="incomplete"), window("b", status="degraded")]
    ),
    "reasons are named, each once": one(
        {"reasons": [LOW, "orphans", "quarantined_rows", "rank_missing"], "rows_read_count": 30,
         "rows_quarantined_count": 4},
        sources=[window("a", gpu_reason=LOW, flags=["rank_missing"], rows_read=10, rows_quarantined=4),
                 window("b", gpu_reason=LOW, flags=["rank_missing", "orphans"], rows_read=20)],
    ),
    "attempts are summed apart": story(
        jobs=[{}], sources=[window("a", end=50), window("b", attempt=1, start=60)],
        device_ledger=[ledger(50, 10, 0, 0, 40, 0, 0, 0), ledger(40, 40, 0, 0, 0, 0, 0, 0, attempt=1)],
        expect=[{"attempt": 0, "gpu_active_ratio": 0.2, "ended_ns": 50}, {"attempt": 1, "gpu_active_ratio": 1.0}],
    ),
    "without evidence numbers are unknown, and counts are 0": one(
        {"device_time_ns": None, "withheld_ns": None, "gpu_active_ratio": None, "comm_overlap_ratio": None,
         "launch_coverage_ratio": None, "tensor_core_ratio": None, "precision_known_ratio": None,
         "cpu_util_ratio": None,
         "cpu_active_ratio": None, "gpu_util_sampled_ratio": None, "step_median_ns": None, "step_count": 0,
         "kernel_count": 0, "launch_count": 0, "memop_count": 0, "kernel_sum_ns": 0, "device_count": 0},
    ),
}  # fmt: skip

LEDGER = {
    "the ratios are those of all devices and windows together": one(
        {
            "device_time_ns": 400,
            "compute_ns": 150,
            "exposed_comm_ns": 60,
            "exposed_mem_ns": 30,
            "idle_ns": 160,
            "sync_idle_ns": 20,
            "gpu_active_ratio": 0.6,
            "kernel_busy_ratio": 0.525,
            "comm_overlap_ratio": 0.25,
            "withheld_ns": None,
            "device_count": 2,
        },
        devices=[{"device_id": "d"}, {"device_id": "e"}, {"device_id": "d", "source_id": "t"}],
        device_ledger=[
            ledger(100, 50, 20, 10, 20, 5, 30, 10),
            ledger(300, 100, 40, 20, 140, 15, 50, 10, device_id="e"),
            ledger(999, 999, 0, 0, 0, 0, 0, 0, scope="job"),
            ledger(10, 10, 0, 0, 0, 0, 0, 0, scope="step"),
        ],
    ),
    "a withheld window is in no sum, and said": one(
        {"device_time_ns": 100, "withheld_ns": 900, "gpu_active_ratio": 0.8, "comm_overlap_ratio": None},
        device_ledger=[ledger(100, 80, 0, 0, 20, 0, 0, 0), ledger(900, reason=LOW, source_id="t")],
    ),
    "where all windows are withheld there is no ratio": one(
        {"device_time_ns": None, "withheld_ns": 900, "gpu_active_ratio": None, "compute_ns": None, "idle_ns": None},
        device_ledger=[ledger(900, reason=LOW)],
    ),
    "a window without a device is no recorded device time": one(
        {"device_time_ns": None, "withheld_ns": None}, device_ledger=[ledger(900, reason="x", device_id=None)]
    ),
}

RANKS = {
    "ranks without a window are missing": one(
        {"ranks_expected_count": 4, "ranks_seen_count": 2, "missing_ranks": [1, 3], "conflicting_ranks": [],
         "reasons": ["missing_ranks"]},
        sources=[window("a", 0, world_size=4), window("b", 2, world_size=4)],
    ),
    "windows of one rank one after the other do not conflict": one(
        {"ranks_seen_count": 1, "missing_ranks": [], "conflicting_ranks": [], "reasons": []},
        sources=[window("a", 0, world_size=1), window("b", 0, 100, 200, world_size=1)],
    ),
    "two windows that claim one rank at one time conflict": one(
        {"conflicting_ranks": [1], "ranks_seen_count": 1, "source_count": 3},
        sources=[window("a", 0), window("b", 1), window("c", 1, 50, 150)],
    ),
    "a rank that two windows claim is not seen, and stands apart from ranks without a window": one(
        {"missing_ranks": [3], "conflicting_ranks": [1], "ranks_seen_count": 2},
        sources=[window("a", 0, world_size=4), window("b", 1), window("c", 1, 50, 150), window("d", 2)],
    ),
    "slow ranks are counted where ranks were judged": one(
        {"straggler_count": 1, "stragglers_reason": None},
        sources=[window("a", 0)],
        rank_stats=[compared(0, False), compared(1, True), compared(2, None, "too_few_steps")],
    ),
    "where none was judged it is said why": one(
        {"straggler_count": None, "stragglers_reason": "too_few_steps"},
        rank_stats=[compared(0, None, "too_few_steps"), compared(1, None, "too_few_steps")],
    ),
    "the median rank's bubbles": one(
        {"bubble_ratio": 0.2, "bubble_reason": None},
        rank_stats=[compared(rank, False) | {"bubble_ratio": of} for rank, of in enumerate((0.3, 0.1, 0.2, None))],
    ),
    "without sends and receives there are none": one(
        {"bubble_ratio": None, "bubble_reason": "no_send_recv"}, rank_stats=[compared(0, False)],
    ),
    "sends of ranks that are not compared are not denied": one(
        {"bubble_ratio": None, "bubble_reason": "no_comparable_steps"}, step_ledger=[step(0, 10, exposed_p2p_ns=3)],
    ),
    "slow steps are counted where steps were judged": one(
        {"slow_step_count": 1, "outlier_steps_reason": None},
        step_ledger=[step(0, 10)],
        step_times=[judged("usual"), judged("slow"), judged("warm_up", None), judged("withheld", None, "checkpoint")],
    ),
    "too few steps are not judged, and that is said": one(
        {"slow_step_count": None, "outlier_steps_reason": "too_few_steps"},
        step_ledger=[step(0, 10)], step_times=[judged("withheld", None), judged("slow", 9.0, "checkpoint")],
    ),
    "what withholds steps is why they are not judged": one(
        {"slow_step_count": None, "outlier_steps_reason": LOW}, step_ledger=[step(0, 10, reason=LOW)],
    ),
    "without steps there are none to judge": one({"slow_step_count": None, "outlier_steps_reason": "no_steps"}),
    "steps that launches tell are said to be, with how evenly they repeat": one(
        {"is_step_inferred": True, "step_period_launch_count": 40, "step_agreement_ratio": 0.96,
         "no_steps_reason": None, "step_count": 1},
        step_ledger=[step(0, 10, step_name="inferred_step", is_inferred=True)],
        step_periods=[period("a", 40, 0.99), period("b", 40, 0.96), period("c", 41, 0.97), unknown_period("d")],
    ),
    "marked steps of one window are the job's": one(
        {"is_step_inferred": False, "step_period_launch_count": None, "step_agreement_ratio": None,
         "no_steps_reason": None, "step_median_ns": 10},
        step_ledger=[step(0, 10, is_inferred=False),
                     *[step(n, 90, step_name="inferred_step", is_inferred=True) for n in range(3)]],
        step_periods=[period("a", 40, 0.99)],
    ),
    "an older version's steps are marked": one({"is_step_inferred": False}, step_ledger=[step(0, 10)]),
    "where steps are neither marked nor inferred the best known reason is given": one(
        {"is_step_inferred": None, "step_period_launch_count": None, "no_steps_reason": "no_period"},
        step_periods=[unknown_period("a", "no_launches"), unknown_period("b"), unknown_period("c", "too_few_launches")],
    ),
    "where there was nothing to compare that is said": one(
        {"straggler_count": None, "stragglers_reason": "no_comparable_steps"}
    ),
    "a rank that is not given is never guessed": one(
        {"ranks_seen_count": 0, "missing_ranks": [0, 1], "conflicting_ranks": []},
        sources=[window("a", world_size=2), window("b", world_size=2)],
    ),
    "the job knows how many ranks there are where windows do not": one(
        {"ranks_expected_count": 2, "missing_ranks": [1]}, jobs=[{"world_size": 2}], sources=[window("a", 0)]
    ),
    "without a world size no rank is missing": one(
        {"ranks_expected_count": None, "missing_ranks": [], "ranks_seen_count": 1}, sources=[window("a", 5)]
    ),
}  # fmt: skip

STEPS = {
    "the step time is that of the slowest rank": one(
        {"step_count": 3, "step_median_ns": 20, "step_max_ns": 40, "uncovered_step_count": 0},
        step_ledger=[step(0, 10), step(0, 20, source_id="t"), step(1, 40), step(1, 5, source_id="t"), step(2, 7)],
    ),
    "a cut step counts in nothing": one(
        {"step_count": 1, "step_median_ns": 10, "step_max_ns": 10}, step_ledger=[step(0, 10), step(1, 900, "cut")]
    ),
    "uncovered steps are counted and said": one(
        {"uncovered_step_count": 1, "reasons": ["uncovered_steps"]}, step_ledger=[step(0, 10), step(1, 3, "uncovered")]
    ),
    "of several step names the one with the most time counts": one(
        {"step_count": 1, "step_median_ns": 100},
        step_ledger=[step(0, 10), step(1, 20), step(0, 100, step_name="train step")],
    ),
}

A100 = {"device_id": "d", "name": "NVIDIA A100-SXM4-40GB"}
BF16 = {"kernel_class": "gemm", "precision": "bf16", "is_tensor_core": True, "precision_source": "name"}
S = 1_000_000_000


def math(duration: int, known: int = 0, flops: float | None = None, **more: Any) -> Row:
    return {**BF16, "duration_sum_ns": duration, "flops_known_ns": known, "flops": flops, **more}


def told(text: str, where: str = "hyperparameters") -> list[Row]:
    return [{where: {"model_flops_per_step": text}, "world_size": 4}]


def unknown(reason: str) -> Row:
    return {"mfu_ratio": None, "mfu_reason": reason}


TEN_SECONDS = [step(0, 10 * S)]
FLOPS = {
    "what the job tells counts over its median step, shared by all ranks": one(
        {"achieved_flops_per_s": 1e14, "flops_source": "told", "peak_flops_per_s": 312e12, "mfu_ratio": 1e14 / 312e12,
         "mfu_reason": None},
        jobs=told("4e15"), devices=[A100], precision_stats=[math(100)], step_ledger=TEN_SECONDS,
    ),
    "a tag tells as well": one(
        {"achieved_flops_per_s": 1e14, "mfu_reason": None},
        jobs=told("4000000000000000", "tags"), devices=[A100], precision_stats=[math(100)], step_ledger=TEN_SECONDS,
    ),
    "without, shapes of almost all products tell, over the recorded time of the devices": one(
        {"achieved_flops_per_s": 3e12, "flops_source": "shapes", "mfu_ratio": 3e12 / 312e12, "mfu_reason": None},
        devices=[A100], device_ledger=[ledger(2 * S, 2 * S, 0, 0, 0, 0, 0, 0)],
        precision_stats=[math(95, 95, 6e12), math(5, kernel_class="attention"), math(900, kernel_class="norm")],
    ),
    "shapes of some products tell too little": one(
        {"achieved_flops_per_s": None, "flops_source": None, "peak_flops_per_s": 312e12, **unknown("flops_unknown")},
        devices=[A100], device_ledger=[ledger(2 * S, 2 * S, 0, 0, 0, 0, 0, 0)],
        precision_stats=[math(94, 94, 6e12), math(6, kernel_class="conv")],
    ),
    "and of a withheld window they have no time": one(
        unknown("flops_unknown"), devices=[A100], precision_stats=[math(100, 100, 6e12)],
        device_ledger=[ledger(2 * S, 2 * S, 0, 0, 0, 0, 0, 0), ledger(9, reason=LOW, source_id="t")],
    ),
    "more than a device can is not shown": one(
        {"achieved_flops_per_s": None, **unknown("flops_exceed_peak")},
        jobs=told("4e16"), devices=[A100], precision_stats=[math(100)], step_ledger=TEN_SECONDS,
    ),
    "the peak is that of most products' precision": one(
        {"peak_flops_per_s": 156e12, "mfu_ratio": 1e14 / 156e12}, jobs=told("4e15"), devices=[A100],
        precision_stats=[math(100), math(200, precision="fp32"), math(900, precision="fp16", kernel_class="copy")],
        step_ledger=TEN_SECONDS,
    ),
    "devices of two kinds have the mean of both": one(
        {"peak_flops_per_s": (312e12 + 989.4e12) / 2}, jobs=told("4e15"), precision_stats=[math(100)],
        devices=[A100, A100 | {"source_id": "t"}, {"device_id": "e", "name": "NVIDIA H100 80GB HBM3"}],
        step_ledger=TEN_SECONDS,
    ),
    "a device that conf does not name has no peak, and neither have all together": one(
        {"peak_flops_per_s": None, "achieved_flops_per_s": 1e14, **unknown("peak_unknown")}, jobs=told("4e15"),
        devices=[A100, {"device_id": "e", "name": "AMD Instinct MI300X"}], precision_stats=[math(100)],
        step_ledger=TEN_SECONDS,
    ),
    "neither has a part of a device": one(
        unknown("peak_unknown"), jobs=told("4e15"), devices=[A100 | {"name": "NVIDIA A100-SXM4-40GB MIG 3g.20gb"}],
        precision_stats=[math(100)], step_ledger=TEN_SECONDS,
    ),
    "a type that the device does not take has no peak": one(
        unknown("peak_unknown"), jobs=told("4e15"), devices=[A100], precision_stats=[math(100, precision="fp8")],
        step_ledger=TEN_SECONDS,
    ),
    "products of unknown precision have none": one(
        unknown("precision_unknown"), jobs=told("4e15"), devices=[A100],
        precision_stats=[math(100, precision="unknown")], step_ledger=TEN_SECONDS,
    ),
    "what the job tells of a step needs steps": one(
        unknown("no_steps"), jobs=told("4e15"), devices=[A100], precision_stats=[math(100, 100, 6e12)],
    ),
    "what is no number tells nothing": one(
        unknown("flops_unknown"), jobs=told("lots"), devices=[A100], step_ledger=TEN_SECONDS
    ),
    "without devices nothing is known": one(unknown("flops_unknown")),
    "fp32 products are summed": one(
        {"fp32_product_ns": 30}, precision_stats=[math(10, fp32_product_ns=10), math(20, fp32_product_ns=20, attempt=0)]
    ),
}  # fmt: skip

SUMS = {
    "kernels, launches and copies add up over their names": one(
        {"kernel_count": 5, "kernel_sum_ns": 70, "launch_count": 9, "launch_coverage_ratio": 0.75, "memop_count": 4},
        kernel_stats=[{"kernel_count": 2, "duration_sum_ns": 30}, {"kernel_count": 3, "duration_sum_ns": 40}],
        launch_stats=[{"launch_count": 4, "producing_launch_count": 4, "covered_launch_count": 3},
                      {"launch_count": 5, "producing_launch_count": 0, "covered_launch_count": 0}],
        memop_stats=[{"memop_count": 1}, {"memop_count": 3}],
    ),
    "communication is in no share of tensor cores or precision": one(
        {"tensor_core_ratio": 0.25, "precision_known_ratio": 0.75},
        precision_stats=[
            {"kernel_class": "gemm", "precision": "bf16", "is_tensor_core": True, "duration_sum_ns": 25},
            {"kernel_class": "norm", "precision": "fp32", "is_tensor_core": False, "duration_sum_ns": 50},
            {"kernel_class": "other", "precision": "unknown", "is_tensor_core": False, "duration_sum_ns": 25},
            {"kernel_class": "communication", "precision": "bf16", "is_tensor_core": False, "duration_sum_ns": 900},
        ],
    ),
    "CPU figures are of valid samples, nodes count alike": one(
        {"cpu_util_ratio": 0.375, "cpu_active_ratio": 0.75, "gpu_util_sampled_ratio": None,
         "gpu_util_sampled_coverage_ratio": None},
        samples=[sample("n", 0.5), sample("n", 0.0), sample("n", 1.0), sample("n", None), sample("m", 0.25)],
    ),
    "sampled GPU utilization stands next to its coverage": one(
        {"gpu_util_sampled_ratio": 0.75, "gpu_util_sampled_coverage_ratio": 0.5, "cpu_util_ratio": None},
        samples=[sample("n", 0.5, "device"), sample("n", 1.0, "device"), *[sample("n", None, "device")] * 2],
    ),
    "where every sample failed, as under MIG, utilization is unknown": one(
        {"gpu_util_sampled_ratio": None, "gpu_util_sampled_coverage_ratio": 0.0},
        samples=[sample("n", None, "device")],
    ),
}  # fmt: skip

STORIES = {**WINDOWS, **LEDGER, **RANKS, **STEPS, **FLOPS, **SUMS}


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.job_summary", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_job_summary(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
