"""Pieces of hand-made jobs: rows with believable numbers that agree with each other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from tracelake.reports.format import nice_width
from tracelake.reports.goodput_rows import Goodput
from tracelake.reports.metric_rows import (
    Annotation,
    AnnotationBin,
    Bin,
    Cell,
    Device,
    Finding,
    IdleCause,
    Kernel,
    Launch,
    Memop,
    Precision,
    StepGroup,
)
from tracelake.reports.record_rows import Publication

US, MS, S = 1_000, 1_000_000, 1_000_000_000
BUCKETS = 120
_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns", "sync_idle_ns")
_STEP_PARTS = (
    "compute_ns", "exposed_comm_ns", "memcpy_ns", "memset_ns", "runtime_ns", "data_loading_ns", "host_work_ns",
)  # fmt: skip


def make(row_type: type, **known: Any) -> Any:
    """A row with the named fields; the others are NULL, 0 or empty."""
    blanks = {"int": 0, "float": 0.0, "str": "", "bool": False, "list[str]": [], "list[int]": [], "dict[str, str]": {}}
    values = {x.name: blanks.get(str(x.type)) for x in fields(row_type)}
    return row_type(**(values | known))


def goodput(job_id: str) -> Goodput:
    """Two attempts of 400 device-seconds, of which 300 went into steps that count and 16 are unknown."""
    parts = (("goodput", 300), ("productive", 210), ("initialization", 40), ("checkpoint", 8), ("redone", 24),
             ("outside_steps", 12), ("not_recorded", 16))  # fmt: skip
    row: Goodput = make(
        Goodput, job_id=job_id, attempt_count=2, restart_count=1, allocated_ns=400 * S, restart_gap_ns=90 * S,
        withheld_ns=0, redone_step_count=3, goodput_ratio=300 / 384, productive_ratio=210 / 384,
        **{f"{name}_ns": seconds * S for name, seconds in parts},
    )  # fmt: skip
    return row


def idle(devices: Sequence[Device]) -> tuple[IdleCause, ...]:
    """Idle time of each device, most of it before late launches."""
    shares = (("python_or_other", 65), ("launch_latency", 20), ("data_loading", 10), ("unknown", 5))
    return tuple(
        IdleCause(d.device_id, cause, (d.idle_ns or 0) * percent // 100)
        for d in devices if d.device_id is not None for cause, percent in shares
    )  # fmt: skip


FINDINGS = (
    Finding(
        1, "slow_rank", "throttled", "warn", "Rank 3 on n7: 25.0 % more work of its own per step than its peers",
        "The device lowers its clock: check cooling, power cap and neighbours, then drain the node.",
        48_300_000_000, 0.182, 0.42, 1.0,
        ["aggregates.stragglers WHERE job_id = 'llm' AND attempt = 0 AND rank = 3: slowdown_ratio 0.25, excess_ns"
         " 20000000 in each of 40 steps"],
    ),
    Finding(
        2, "slow_steps", "data_loading", "warn", "2 steps took up to 3.0 times the usual time: data loading",
        "More loader workers, prefetching, pinned memory, or a cheaper decode.", 1_300_000_000, 0.011, None, 0.9,
        ["aggregates.outlier_steps WHERE job_id = 'llm': duration_ns 300, usually 100", "<b>not bold</b>"],
    ),
    Finding(
        3, "memory_leak", "memory_leak", "info", "Memory of rank 1 grew steadily by 12.0 % of the device",
        "Look for tensors kept alive across steps (losses, graphs, caches).", None, None, None, 0.95,
        ["aggregates.device_samples WHERE job_id = 'llm': memory_growth_bytes 9"],
    ),
)  # fmt: skip
PUBLISHABLE = Publication(True, [], 430, 0, 0, 128, 0)


def device(rank: int, node: str | None, window: int, parts: tuple[int, ...], index: int = 0) -> Device:
    compute, comm, mem, sync = parts
    idle = window - compute - comm - mem
    return Device(
        device_id=f"rank {rank}; {index}",
        node_id=node,
        rank=rank,
        device_index=index,
        window_ns=window,
        compute_ns=compute,
        exposed_comm_ns=comm,
        exposed_mem_ns=mem,
        idle_ns=idle,
        sync_idle_ns=sync,
        gpu_active_ratio=(window - idle) / window,
        kernel_busy_ratio=(compute + comm) / window,
        comm_overlap_ratio=compute / window / 3,
        launch_coverage_ratio=1.0,
        reason=None,
    )


def device_sums(devices: list[Device]) -> dict[str, Any]:
    """The job's figures that follow from its devices."""
    total = {c: sum(getattr(d, c) for d in devices) for c in _PARTS}
    window = sum(d.window_ns for d in devices)
    return {
        **total,
        "device_time_ns": window,
        "device_count": len(devices),
        "gpu_active_ratio": 1 - total["idle_ns"] / window,
        "kernel_busy_ratio": (total["compute_ns"] + total["exposed_comm_ns"]) / window,
        "comm_overlap_ratio": total["compute_ns"] / window / 3,
        "launch_coverage_ratio": 1.0,
    }


def kernel(name: str, short: str, kind: str, precision: str, us: float, n: int, source: str = "name") -> Kernel:
    ns = int(us * US)
    return Kernel(
        name=name,
        short_name=short,
        kernel_class=kind,
        precision=precision,
        precision_source=source,
        precision_count=1,
        is_tensor_core="tensorop" in name,
        kernel_count=n,
        device_count=8,
        duration_sum_ns=ns,
        duration_mean_ns=ns / n,
        duration_p50_ns=ns // n,
        duration_p99_ns=3 * ns // n,
        duration_max_ns=4 * ns // n,
    )


def precisions(kernels: list[Kernel]) -> tuple[Precision, ...]:
    return tuple(
        Precision(k.kernel_class, k.precision, k.precision_source, k.is_tensor_core, k.kernel_count, k.duration_sum_ns)
        for k in kernels
    )


def memops(times: int = 1) -> tuple[Memop, ...]:
    rows = (
        ("htod", "pageable", 65, 90, 64),
        ("htod", "pinned", 48, 153, 40),
        ("dtod", None, 23, 364, 8),
        (None, None, 17, 36, 12),
    )
    return tuple(
        Memop(
            kind="memcpy" if direction else "memset",
            direction=direction,
            memory_kind=memory,
            memop_count=n * times,
            sized_count=n * times,
            sum_bytes=kib * 1024 * times,
            p50_bytes=kib * 1024 // n,
            max_bytes=kib * 512,
            sized_duration_sum_ns=us * US * times,
            duration_sum_ns=us * US * times,
            duration_mean_ns=us * US / n,
            duration_p99_ns=2 * us * US // n,
        )
        for direction, memory, us, kib, n in rows
    )


def launches(n: int) -> tuple[Launch, ...]:
    first = Launch(
        api_name="cudaLaunchKernel",
        launch_count=n,
        kernel_count=n,
        producing_launch_count=n,
        covered_launch_count=n,
        short_kernel_count=int(n * 0.69),
        slow_launch_count=3,
        long_delay_count=2,
        launch_delay_count=n,
        launch_delay_p50_ns=7 * US,
        launch_delay_p99_ns=2_350 * US,
        launch_delay_max_ns=6_980 * US,
        before_launch_count=0,
        duration_sum_ns=n * 9 * US,
        duration_mean_ns=9.0 * US,
        duration_p99_ns=32 * US,
    )
    copies = replace(
        first,
        api_name="cudaMemcpyAsync",
        launch_count=124,
        kernel_count=0,
        producing_launch_count=0,
        short_kernel_count=0,
    )
    return first, copies


def bins(durations: list[int]) -> tuple[Bin, ...]:
    """As the page's query makes them: 40 bins of one width and one more for what is far longer."""
    low, p99 = min(durations), sorted(durations)[int(len(durations) * 0.99) - 1]
    width = nice_width(p99 - low, 20)
    last = (low // width + 40) * width
    counts = Counter(min(d // width * width, last) for d in durations)
    high = {last: max(last + width, max(durations))}
    return tuple(Bin(at, high.get(at, at + width), n) for at, n in sorted(counts.items()))


def annotation(name: str, durations: list[int], *, is_step: bool = False) -> tuple[Annotation, list[AnnotationBin]]:
    d = sorted(durations)
    row = make(
        Annotation,
        name=name,
        side="host",
        is_step=is_step,
        annotation_count=len(d),
        gpu_exclusive_ns=sum(d) // 3,
        gpu_time_ns=sum(d) // 2,
        duration_sum_ns=sum(d),
        duration_mean_ns=sum(d) / len(d),
        duration_min_ns=d[0],
        duration_p50_ns=d[len(d) // 2],
        duration_p99_ns=d[-1],
        duration_max_ns=d[-1],
    )
    return row, [AnnotationBin(name, b.low_ns, b.high_ns, b.count) for b in bins(d)]


def group(name: str, durations: list[int]) -> StepGroup:
    d = sorted(durations)
    return StepGroup(name, len(d), sum(d), d[0], d[len(d) // 2], d[int((len(d) - 1) * 0.99)], d[-1])


def step_parts(total: int, shares: tuple[float, ...]) -> dict[str, int]:
    parts = {c: int(total * s) for c, s in zip(_STEP_PARTS, shares, strict=True)}
    return parts | {"other_ns": total - sum(parts.values())}


def cells(devices: list[Device], start: int, rng: random.Random, late: list[int]) -> list[Cell]:
    """Utilization per device: one long busy stretch among short bursts, each device starting a little later."""
    out = []
    for d, begin in zip(devices, late, strict=True):
        bucket = d.window_ns // BUCKETS
        for i in range(BUCKETS):
            at = start + begin + i * bucket
            busy = 30 < i < 30 + 70 * (d.gpu_active_ratio or 0)
            burst = rng.choice([0.0, 0.0, 0.1, 0.4, 0.9]) if i % 9 < 5 else 0.0
            for metric, share in (("gpu_active_ratio", 1.0), ("compute_ratio", 0.3), ("exposed_comm_ratio", 0.7)):
                value = (1.0 if busy else burst) * share
                out.append(Cell("device", str(d.device_id), d.node_id, metric, at, at + bucket, value))
    return out
