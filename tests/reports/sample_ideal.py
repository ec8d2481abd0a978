"""A hand-made ideal job: two nodes, 400 steps, samples of devices and CPUs."""

from __future__ import annotations

import random

import sample_causes
import sample_parts as part
from sample_parts import MS, S, make

from tracelake.reports.data import JobData
from tracelake.reports.metric_rows import Cell, Device, OtherKernels, RankSteps, Step, StepsLeftOut
from tracelake.reports.record_rows import DeviceModel, Job, Quarantined, SourceGroup, Summary

IDEAL_START = 1_710_053_970_000_000_000
_NODES = ["gpu-0412", "gpu-0413"]
_SHARES = (0.71, 0.11, 0.01, 0.002, 0.02, 0.03, 0.05)
_GEMM = "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_nn_align8"
_SCATTER = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"
_FUSED = "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_4"
_IDEAL_KERNELS = (
    (f"void cutlass::Kernel2<{_GEMM}>({_GEMM}::Params)", _GEMM, "gemm", "bf16", 412e6, 614_400, "operator"),
    ("flash_fwd_kernel<traits<128, 64>>", "flash_fwd_kernel", "attention", "bf16", 190e6, 204_800, "operator"),
    (f"{_SCATTER}(ncclDevKernelArgs)", _SCATTER, "communication", "bf16", 151e6, 25_600, "collective"),
    (_FUSED, _FUSED, "fused", "unknown", 77e6, 409_600, "none"),
    ("multi_tensor_apply_kernel", "multi_tensor_apply_kernel", "optimizer", "fp32", 64e6, 12_800, "operator"),
)


def _ideal_cells(devices: list[Device], rng: random.Random) -> list[Cell]:
    cells = part.cells(devices, IDEAL_START, rng, [0] * len(devices))
    seconds = [(IDEAL_START + i * S, IDEAL_START + (i + 1) * S) for i in range(92)]
    for node in _NODES:
        for metric, low in (("cpu_util_ratio", 0.3), ("gpu_active_ratio", 0.75)):
            cells += [Cell("node", node, node, metric, a, b, low + 0.2 * rng.random()) for a, b in seconds]
    for d in devices:
        valid = [s for i, s in enumerate(seconds) if i % 30]
        row = (str(d.device_id), d.node_id, "gpu_util_sampled_ratio")
        cells += [Cell("device", *row, a, b, 0.9 + 0.1 * rng.random()) for a, b in valid]
    return cells


def _ideal_job() -> Job:
    return Job(
        job_id="llm-7b-2024-03-10",
        state="completed",
        created_ns=IDEAL_START,
        ended_ns=IDEAL_START + 92 * S,
        exit_code=0,
        attempt_count=2,
        project="llm",
        user="ada",
        family="llm-7b",
        framework="PyTorch 2.6.0",
        world_size=16,
        instance_type="p5.48xlarge",
        cloud_account="123456789012",
        cloud_region="us-east-1",
        instance_ids=["i-0aa1", "i-0bb2"],
        nodes=_NODES,
        cloud_job_id="training-job/llm-7b-2024-03-10",
        format="tracelake",
        hyperparameters={"lr": "3e-4", "global_batch": "1024", "sequence": "4096", "precision": "bf16"},
        tags={"mlflow.run_id": "a8f3", "team": "pretraining"},
    )


def ideal() -> JobData:
    """400 steps on 16 ranks of 2 nodes, with samples; one step takes three times as long."""
    rng, length = random.Random(11), 92 * S
    durations = [int(rng.gauss(231, 2) * MS) for _ in range(400)]
    durations[0], durations[88] = 371 * MS, 716 * MS
    steps = [
        make(Step, step_occurrence=i, step_index=i, step_count=1, rank=12, duration_ns=d, **part.step_parts(d, _SHARES))
        for i, d in enumerate(durations)
    ]
    parts = [tuple(int(length * x) for x in (0.7 + 0.01 * rng.random(), 0.11, 0.008, 0.02)) for _ in range(16)]
    devices = [part.device(r, _NODES[r // 8], length, p, r % 8) for r, p in enumerate(parts)]
    kernels = [part.kernel(*row) for row in _IDEAL_KERNELS]
    kernels += [
        part.kernel(f"elementwise_{i}", f"elementwise_{i}", "elementwise", "bf16", 3e7 / (i + 2), 6400, "operator")
        for i in range(95)
    ]
    ranks = [
        make(
            RankSteps,
            rank=r,
            source_id=str(r),
            step_count=400,
            duration_ns=231 * MS,
            **part.step_parts(231 * MS, _SHARES),
        )
        for r in range(16)
    ]
    named = [
        part.annotation("step", durations, is_step=True),
        part.annotation("forward", [int(rng.gauss(80, 3) * MS) for _ in range(6400)]),
        part.annotation("data", [int(abs(rng.gauss(2, 1)) * MS) + 1 for _ in range(6400)]),
    ]
    summary = make(
        Summary,
        status="complete",
        attempt=1,
        started_ns=IDEAL_START,
        ended_ns=IDEAL_START + length,
        source_count=16,
        node_count=2,
        ranks_seen_count=16,
        ranks_expected_count=16,
        tensor_core_ratio=0.61,
        precision_known_ratio=0.91,
        achieved_flops_per_s=3.92e14,
        peak_flops_per_s=989.4e12,
        bubble_ratio=0.0625,
        mfu_ratio=3.92e14 / 989.4e12,
        cpu_util_ratio=0.41,
        cpu_active_ratio=1.0,
        gpu_util_sampled_ratio=0.95,
        gpu_util_sampled_coverage_ratio=0.967,
        step_count=400,
        step_median_ns=231 * MS,
        step_max_ns=716 * MS,
        kernel_count=2_100_000,
        launch_count=1_900_000,
        memop_count=12_400,
        kernel_sum_ns=sum(k.duration_sum_ns for k in kernels),
        rows_read_count=4_812_004,
        rows_quarantined_count=1,
        metric_version=1,
        **part.device_sums(devices),
    )
    place, remedy = "raw/v1/kernel/day=2024-03-10/job=llm/0-17.parquet", "The tracer gave an end before the start."
    excerpt = '{"start_ns": 5, "end_ns": 3}'
    aside = Quarantined("kernel", place, None, None, 4711, 1, "negative_duration", remedy, excerpt)
    return JobData(
        job=_ideal_job(),
        summary=summary,
        findings=part.FINDINGS,
        devices=tuple(devices),
        other_devices=None,
        idle_causes=part.idle(devices),
        device_models=(DeviceModel("NVIDIA H100 80GB HBM3", 85_520_809_984, 132, "9.0", 16),),
        cells=tuple(_ideal_cells(devices, rng)),
        step_groups=(part.group("step", durations), part.group("eval_step", [90 * MS] * 8)),
        steps=tuple(steps),
        step_bins=part.bins(durations),
        rank_steps=tuple(ranks),
        steps_left_out=(StepsLeftOut("cut", "capture_cut", 16),),
        kernels=tuple(kernels),
        other_kernels=(OtherKernels("elementwise", 214, 990_000, 8 * S), OtherKernels("other", 12, 4_000, S // 7)),
        precisions=part.precisions(kernels),
        launches=part.launches(1_900_000),
        memops=part.memops(100),
        annotations=tuple(a for a, _ in named),
        annotation_bins=tuple(b for _, bins in named for b in bins),
        source_groups=(SourceGroup("complete", None, None, 16, 4_812_004, 4_811_003, 1, 0, 1_000),),
        troubled_sources=(),
        source_flags=(),
        quarantined=(aside,),
        publication=part.PUBLISHABLE,
        causes=sample_causes.ideal(400, "step", durations, 231 * MS),
        before=sample_causes.BEFORE,
        verdict=sample_causes.VERDICT,
        goodput=part.goodput("llm-7b-2024-03-10"),
        moved_kernels=sample_causes.MOVED,
    )
