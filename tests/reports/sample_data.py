"""Hand-made jobs: 8 ranks of one step like DLRM, and one without device numbers."""

from __future__ import annotations

import random
from dataclasses import fields

import sample_causes
import sample_parts as part
from sample_parts import US, S, make

from tracelake.reports.data import JobData
from tracelake.reports.metric_rows import Device, Kernel, RankSteps, Step, StepsLeftOut
from tracelake.reports.record_rows import (
    DeviceModel,
    Job,
    Publication,
    Quarantined,
    Source,
    SourceFlag,
    SourceGroup,
    Summary,
)

DLRM_START = 1_694_128_201_421_000_000

# window, compute, exposed communication, exposed memory, synchronization of ranks 0 to 7, in microseconds
_DLRM = (
    (14_455, 905, 5_600, 20, 85),
    (19_901, 1_120, 11_100, 22, 85),
    (13_017, 910, 3_350, 18, 60),
    (19_313, 1_110, 9_600, 21, 90),
    (17_979, 1_010, 6_520, 23, 80),
    (17_797, 900, 6_180, 20, 95),
    (13_091, 920, 3_420, 19, 70),
    (12_509, 915, 1_700, 17, 40),
)
_AT = "void at::native::"
_ARRAY = "at::detail::Array<char*, 2> >(int, at::detail::Array<char*, 2>)"
_SORT = "at_cuda_detail::cub::DeviceRadixSort"
# name, short name, class, precision, microseconds, executions
_DLRM_KERNELS = (
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "", "communication", "int8", 37_900, 40),
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "", "communication", "fp32", 10_600, 24),
    (f"{_AT}vectorized_elementwise_kernel<4, sqrt_kernel_cuda::lambda, {_ARRAY}", "", "elementwise", "fp32", 483, 160),
    ("volta_sgemm_128x32_nt", "", "gemm", "fp32", 409, 56),
    (f"{_AT}vectorized_elementwise_kernel<4, AddcdivFunctor<float>, {_ARRAY}", "", "elementwise", "fp32", 390, 110),
    ("void split_embedding_codegen_forward_kernel<float, long, 128ul>(long)", "", "embedding", "fp32", 388, 16),
    (f"{_AT}reduce_kernel<512, 1, {_AT}ReduceOp<float, sum_functor<float> > >(int)", "", "reduce", "fp32", 290, 48),
    ("linearize_index_kernel(long const*, int)", "", "index", "int32", 289, 16),
    (f"void {_SORT}OnesweepKernel<{_SORT}Policy<long, int>::Policy800>(int*)", "", "sort", "int32", 240, 48),
    (f"{_AT}unrolled_elementwise_kernel<direct_copy_kernel_cuda>(int)", "", "copy", "fp32", 217, 50),
)


def _short(name: str) -> str:
    return name.removeprefix("void ").split("<")[0].split("(")[0].split("::")[-1]


def _dlrm_kernels() -> list[Kernel]:
    rows = [part.kernel(name, _short(name), *rest) for name, _, *rest in _DLRM_KERNELS]
    small = ("elementwise", "norm")
    rows += [
        part.kernel(f"void k_{i}<float>(float*)", f"k_{i}", small[i % 2], "fp32", 200 / (i + 1), 40) for i in range(66)
    ]
    return sorted(rows, key=lambda k: -k.duration_sum_ns)


def _rank_of(d: Device) -> RankSteps:
    total = d.window_ns - 20 * US
    loading = 0.05 if d.rank == 3 else 0.01
    shares = ((d.compute_ns or 0) / total, (d.exposed_comm_ns or 0) / total, 0.001, 0.0005, 0.081, loading, 0.25)
    row: RankSteps = make(
        RankSteps, rank=d.rank, source_id=str(d.rank), step_count=1, duration_ns=total, **part.step_parts(total, shares)
    )
    return row


def dlrm() -> JobData:
    """One step of eight ranks on one node that the trace does not name."""
    rng = random.Random(7)
    devices = [part.device(r, None, w * US, tuple(x * US for x in rest)) for r, (w, *rest) in enumerate(_DLRM)]
    kernels, ranks = _dlrm_kernels(), [_rank_of(d) for d in devices]
    worst = max(ranks, key=lambda r: r.duration_ns)
    same = {c.name: getattr(worst, c.name) for c in fields(Step) if hasattr(worst, c.name)}
    named = [
        part.annotation("ProfilerStep", [d.window_ns for d in devices], is_step=True),
        part.annotation("nccl:all_to_all", [int(rng.gauss(60, 8) * US) for _ in range(40)]),
        part.annotation("Optimizer.step#SGD.step", [int(rng.gauss(640, 40) * US) for _ in range(8)]),
    ]
    summary = make(
        Summary,
        status="complete",
        started_ns=DLRM_START,
        ended_ns=DLRM_START + 20_700 * US,
        source_count=8,
        ranks_seen_count=8,
        ranks_expected_count=8,
        tensor_core_ratio=0.0,
        precision_known_ratio=1.0,
        step_count=1,
        step_median_ns=worst.duration_ns,
        step_max_ns=worst.duration_ns,
        kernel_count=sum(k.kernel_count for k in kernels),
        launch_count=1976,
        memop_count=124,
        kernel_sum_ns=sum(k.duration_sum_ns for k in kernels),
        rows_read_count=26_538,
        metric_version=1,
        **part.device_sums(devices),
    )
    job = {"job_id": "dlrm", "state": "unknown", "attempt_count": 1, "world_size": 8, "project": "param"}
    return JobData(
        job=make(Job, **job, format="kineto", framework="PyTorch", created_ns=DLRM_START),
        summary=summary,
        findings=(),
        devices=tuple(devices),
        other_devices=None,
        idle_causes=part.idle(devices),
        device_models=(DeviceModel("Tesla V100-SXM2-32GB", 34_089_730_048, 80, "7.0", 8),),
        cells=tuple(part.cells(devices, DLRM_START, rng, [rng.randrange(700) * US for _ in devices])),
        step_groups=(part.group("ProfilerStep", [worst.duration_ns]),),
        steps=(Step(**(same | {"step_occurrence": 0, "step_index": 10, "step_count": 1})),),
        step_bins=part.bins([worst.duration_ns]),
        rank_steps=tuple(ranks),
        steps_left_out=(),
        kernels=tuple(kernels),
        other_kernels=(),
        precisions=part.precisions(kernels),
        launches=part.launches(1976),
        memops=part.memops(),
        annotations=tuple(a for a, _ in named),
        annotation_bins=tuple(b for _, bins in named for b in bins),
        source_groups=(SourceGroup("complete", None, None, 8, 26_538, 11_020, 0, 0, 15_518),),
        troubled_sources=(),
        source_flags=(),
        quarantined=(),
        publication=part.PUBLISHABLE,
        causes=sample_causes.dlrm(),
    )


def degraded() -> JobData:
    """Two ranks of four; one without any device activity, one whose launches lost their kernels."""
    window, start, file = 5 * S, 1_700_000_000 * S, "old-7_1234.pt.trace.json"
    low, none = "low_launch_coverage", "no_gpu_activity_captured"
    lost_device = make(Device, device_id="GPU-1f3a", node_id="old-7", rank=0, device_index=0, window_ns=window)
    summary = make(
        Summary,
        status="degraded",
        reasons=[low, "file_cut", "missing_ranks"],
        started_ns=start,
        ended_ns=start + window,
        source_count=2,
        node_count=1,
        device_count=1,
        ranks_seen_count=2,
        ranks_expected_count=4,
        missing_ranks=[2, 3],
        withheld_ns=window,
        launch_coverage_ratio=0.71,
        launch_count=9_114,
        rows_read_count=20_000,
        rows_quarantined_count=340,
        metric_version=1,
    )
    job = {"job_id": "broken-run", "state": "failed", "exit_code": 137, "attempt_count": 1, "world_size": 4}
    remedy = "Ask the owner for the whole file; a later full file replaces this one."
    excerpt = '{"ph": "X", "cat": "kern'
    return JobData(
        job=make(Job, **job, format="kineto", nodes=["old-7"]),
        summary=summary,
        findings=(),
        devices=(make(Device, **{c.name: getattr(lost_device, c.name) for c in fields(Device)} | {"reason": low}),),
        other_devices=None,
        idle_causes=(),
        device_models=(),
        cells=(),
        step_groups=(),
        steps=(),
        step_bins=(),
        rank_steps=(),
        steps_left_out=(StepsLeftOut("cut", "capture_cut", 12),),
        kernels=(),
        other_kernels=(),
        precisions=(),
        launches=part.launches(9_114),
        memops=(),
        annotations=(),
        annotation_bins=(),
        source_groups=(
            SourceGroup("degraded", "file_cut", low, 1, 15_000, 9_000, 340, 60, 5_600),
            SourceGroup("incomplete", "interrupted", none, 1, 5_000, 4_000, 0, 0, 1_000),
        ),
        troubled_sources=(
            Source(0, "old-7", "degraded", "file_cut", low, 0.71, file),
            Source(1, "old-7", "incomplete", "interrupted", none, None, None),
        ),
        source_flags=(SourceFlag("rank_missing", 1),),
        quarantined=(Quarantined("loss", file, 41_204_992, 8_192, None, None, "truncated", remedy, excerpt),),
        publication=Publication(
            False, ["set_aside: 1.7 % of the rows of normalized.sources, and 1 % may be"], 400, 1, 0, 157, 0
        ),
    )
