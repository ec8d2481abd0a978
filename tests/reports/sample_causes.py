"""Hand-made causes: the collectives of DLRM, and eight ranks of which one is slow."""

from __future__ import annotations

import random

from sample_parts import MS, US

from tracelake.reports.cause_rows import (
    Clocks,
    Collective,
    CollectiveKind,
    CollectiveWait,
    DeviceSamples,
    OutlierStep,
    PathShare,
    RankExcess,
    RankStat,
    Straggler,
    WhatIf,
)
from tracelake.reports.change_rows import KernelChange, RunBefore, Verdict
from tracelake.reports.data import Causes

# wait of ranks 0 to 7 in each collective, in microseconds; 0 for the last
_WAITS = (
    ("all_to_all", (2_140, 7_620, 610, 6_120, 4_870, 4_670, 500, 0)),
    ("all_to_all", (1_020, 1_100, 510, 1_020, 1_030, 1_000, 550, 0)),
    ("all_to_all", (170, 168, 160, 165, 166, 167, 164, 0)),
    ("all_to_all", (120, 125, 110, 120, 121, 124, 118, 0)),
    ("all_reduce", (150, 220, 110, 200, 10, 140, 150, 0)),
    ("all_reduce", (460, 534, 400, 500, 480, 0, 350, 470)),
    ("all_reduce", (580, 584, 560, 550, 575, 0, 410, 380)),
    ("all_reduce", (880, 690, 850, 860, 0, 640, 730, 780)),
)


BEFORE = RunBefore(
    job_id="llm-7b-2024-03-08", attempt=0, created_ns=1_709_900_000_000_000_000,
    hyperparameters={"lr": "3e-4", "global_batch": "1024", "sequence": "2048", "precision": "bf16"},
    step_count=400, step_median_ns=252 * MS, device_time_ns=1_000 * MS, compute_ns=610 * MS,
    exposed_comm_ns=180 * MS, exposed_mem_ns=8 * MS, idle_ns=202 * MS, gpu_active_ratio=0.798,
    tensor_core_ratio=None,
)  # fmt: skip
VERDICT = Verdict("IMPROVEMENT", 14, 251.0, 12.6, -8.4)
MOVED = (
    KernelChange("flash_fwd_kernel<128, 64, bf16>", "flash_fwd_kernel", 0.0, 14.2 * MS),
    KernelChange("softmax_warp_forward<float, float, 10>", "softmax_warp_forward", 31.0 * MS, 0.0),
    KernelChange("ampere_bf16_s16816gemm", "ampere_bf16_s16816gemm", 88.0 * MS, 84.5 * MS),
)


def dlrm() -> Causes:
    """One step: collectives matched, ranks not judged, clocks of one host."""
    waits = [(op, [w * US for w in waits]) for op, waits in _WAITS]
    return Causes(
        collective_kinds=(
            CollectiveKind("all_to_all", 4, 4, 900 * US, sum(sum(w) for _, w in waits[:4]), None, None),
            CollectiveKind("all_reduce", 4, 4, 1_100 * US, sum(sum(w) for _, w in waits[4:]), 31e9, None),
            CollectiveKind("send", 3, 0, None, None, None, "point_to_point"),
        ),
        collectives=tuple(
            Collective("nccl", n, op, 220 * US, sum(w), max(w), w.index(0), "not_resolvable")
            for n, (op, w) in enumerate(waits)
        ),
        collective_waits=tuple(
            CollectiveWait("nccl", n, rank, w) for n, (_, each) in enumerate(waits) for rank, w in enumerate(each)
        ),
        rank_stats=tuple(
            RankStat(r, None, 1, (12 + r) * MS, (r - 3) * MS, (r - 3) / 15, None, None, "too_few_steps")
            for r in range(8)
        ),
        path=tuple(
            PathShare(rank, 1, ns * US, 13_311 * US, *(part * US for part in parts), None)
            for rank, ns, *parts in (
                (7, 7_831, 431, 118, 15, 735, 1_243, 5_223, 66), (4, 3_120, 450, 69, 0, 501, 0, 2_006, 94),
                (5, 2_360, 216, 30, 5, 365, 0, 1_744, 0),
            )
        ),
        clocks=(Clocks("same_host", None, 8, 0, 0),),
    )  # fmt: skip


def ideal(steps: int, names: str, durations: list[int], median: int) -> Causes:
    """A rank that is slow in each step, single slow steps with causes, power and clocks of each device."""
    rng = random.Random(3)
    worst = sorted(range(1, steps), key=lambda i: -durations[i])[:3]
    warm_up = (
        0,
        durations[0],
        None,
        "warm_up",
        "training",
        durations[0] - median,
        None,
        None,
        None,
        None,
        None,
        None,
        [],
    )
    causes = (("data_loading", 3), ("waiting_for_rank", 5), ("host_work", None))
    return Causes(
        outliers=(
            *(
                OutlierStep(
                    names, None, i, durations[i], 12.0 + n, "slow", "training", durations[i] - median, cause,
                    durations[i] - median - MS, 0.97, rank, f"node-{rank}" if rank else None, 0.97,
                    [f"normalized.annotations WHERE job_id = 'ideal' AND step_occurrence = {i}: dataloader 40 ms"],
                )
                for n, (i, (cause, rank)) in enumerate(zip(worst, causes, strict=True))
            ),
            OutlierStep(names, 0, *warm_up),
        ),
        rank_stats=tuple(
            RankStat(r, f"node-{r}", steps, 100 * MS, (25 if r == 5 else 0) * MS, 0.25 if r == 5 else 0.0,
                     "throttled" if r == 5 else None, r == 5, None)
            for r in range(8)
        ),
        rank_excess=tuple(
            RankExcess(r, at, 10, max(0.0, rng.gauss(0.25 if r == 5 else 0.01, 0.01)))
            for r in range(8) for at in range(0, steps, 10)
        ),
        stragglers=(Straggler(5, "node-5", "rank", 0.25, 25 * MS, steps * 8 * 25 * MS, steps, "throttled", 24 * MS),),
        path=(PathShare(None, steps, *(None,) * 9, "no_common_collectives"),),
        what_if=(
            WhatIf("rank_as_peers", "5", steps, steps * 125 * MS, steps * 100 * MS, 0.2, "The others do the same."),
            WhatIf("communication_hidden", "*", steps, steps * 125 * MS, steps * 118 * MS, 0.056, "No new conflict."),
        ),
        clocks=(Clocks("same_host", None, 1, 0, 0), Clocks("collective_ends", None, 7, 1_204 * US, 9 * US)),
        device_samples=tuple(
            DeviceSamples(f"GPU-{r}", f"node-{r}", r, 0.998, 512.0 + r, 690.0, (1.2 if r == 5 else 1.7) * 1e9, 0.0,
                          0.41 if r == 5 else 0.0, 0.0, 80 << 30, 61 << 30, 4 << 20, r == 2, None)
            for r in range(8)
        ),
    )  # fmt: skip
