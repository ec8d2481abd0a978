"""One step of a training job on 2 nodes with 2 GPUs each, as its rows would say it: launches, kernels, waits, names."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tracelake.reports.timeline.data import DeviceRow, EventRow, Mark, MergedRow, Rows, SampleRow, Source, Window

US, MS = 1_000, 1_000_000
START = 1_795_910_401_421_000_000
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e'\"&"
_GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_tn_align8>(Params)"
_KERNELS = (
    (_GEMM, "cutlass_80_tensorop_bf16_s16816gemm", "gemm, bf16", 240),
    ("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, bf16>>", "flash_fwd_kernel", "attention, bf16", 330),
    ("vectorized_layer_norm_kernel<c10::BFloat16, float>", "vectorized_layer_norm_kernel", "norm, bf16", 46),
    ("elementwise_kernel<AddFunctor>", "elementwise_kernel", "elementwise, bf16", 22),
)
_LAYERS = 6
MAIN, BACKWARD = 4711, 4790


def rows(**changes: object) -> Rows:
    """The step; `changes` replace lists of it."""
    sources = tuple(
        Source(f"s{rank}", f"node-{rank // 2}", rank, 9_000 + rank, "python", "complete", None) for rank in range(4)
    )
    devices = tuple(
        DeviceRow(s.source_id, f"GPU-{s.rank}", (s.rank or 0) % 2, "NVIDIA H100 80GB HBM3") for s in sources
    )
    events = tuple(event for s in sources for event in _process(s, random.Random(s.rank)))
    end = START + 24 * MS
    given = Rows(
        window=Window("llm-7b", 0, "llm", "step 41", START, end, 2, "The slowest step: 2.1 times the median."),
        sources=sources,
        source_count=4,
        devices=devices,
        events=events,
        merged=(),
        samples=tuple(_samples()),
        marks=(Mark("step 41", START + 200 * US, START + 23 * MS, "slow", "waiting for rank 2"),),
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def _samples() -> Iterator[SampleRow]:
    """Of the first node: the second was not sampled, which is said."""
    for number in range(7):
        at = START - 2 * MS + number * 4 * MS
        yield SampleRow("node-0", "cpu_util_ratio", "ratio", at, None if number == 4 else 0.2 + 0.1 * (number % 4))
        yield SampleRow("node-0", "memory_used", "bytes", at, 6e10 + number * 1e9)


class _Clock:
    """A process: what its threads and streams did so far."""

    def __init__(self, source: Source, rng: random.Random) -> None:
        self.source, self.rng, self.launches = source, rng, 0
        self.free = {7: START, 20: START, 24: START}
        self.events: list[EventRow] = []

    def host(self, thread: int, kind: str, name: str, start: int, end: int, depth: int | None, n: int | None) -> None:
        row = EventRow(self.source.source_id, None, None, thread, kind, name, None, None, start, end, n, depth)
        self.events.append(row)

    def launch(self, thread: int, at: int, stream: int, kernel: tuple[str, str, str, int], **more: object) -> int:
        """A launch and its device event; returns when the host goes on."""
        name, short, detail, micros = kernel
        self.launches += 1
        api = "cudaMemcpyAsync" if more.get("kind") == "memory" else "cudaLaunchKernel"
        self.host(thread, "launch", api, at, at + 6 * US, None, self.launches)
        begin = max(at + 9 * US, self.free[stream])
        end = begin + int(micros * US * self.rng.uniform(0.9, 1.15))
        self.free[stream] = end
        given = {"kind": "compute", **more}
        row = EventRow(
            self.source.source_id, f"GPU-{self.source.rank}", stream, None, "", name, short, detail, begin, end,
            self.launches,
        )  # fmt: skip
        self.events.append(replace(row, **given))  # type: ignore[arg-type]
        return at + 8 * US + int(self.rng.expovariate(1 / 110) * US)


def _process(source: Source, rng: random.Random) -> list[EventRow]:
    clock = _Clock(source, rng)
    slow = 1.5 if source.rank == 2 else 1.0
    begin = at = START + 200 * US + rng.randrange(80) * US
    clock.host(MAIN, "annotation", "load_batch", begin, begin + int(700 * slow) * US, 1, None)
    copy = ("memcpy host → device", "", "pinned", 190)
    clock.launch(MAIN, begin + 300 * US, 24, copy, kind="memory", bytes=67_108_864)
    at = begin + int(720 * slow) * US
    forward = at
    for layer in range(_LAYERS):
        opened = at
        for kernel in _KERNELS * 2:
            at = clock.launch(MAIN, at, 7, kernel)
        clock.host(MAIN, "annotation", f"layer_{layer}", opened, at, 2, None)
        at += 5 * US
    clock.host(MAIN, "annotation", "forward", forward, at, 1, None)
    _backward(clock, at, slow)
    end = max(clock.free.values()) + 60 * US
    clock.host(MAIN, "sync", "cudaStreamSynchronize", at + 400 * US, end, None, None)
    clock.host(MAIN, "step", "step 41", begin, end + 40 * US, 0, None)
    return clock.events


def _backward(clock: _Clock, at: int, slow: float) -> None:
    opened = at
    for layer in reversed(range(_LAYERS)):
        for kernel in _KERNELS * 2:
            name, short, detail, micros = kernel
            at = clock.launch(BACKWARD, at, 7, (f"bwd {name}", short, detail, int(micros * 1.2 * slow)))
        nccl = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication, bf16", 900)  # fmt: skip
        group = f"data parallel #{_LAYERS - 1 - layer} all-reduce"
        clock.free[20] = max(clock.free[20], clock.free[7])
        at = clock.launch(BACKWARD, at, 20, nccl, kind="communication", collective=group)
    clock.host(BACKWARD, "annotation", "backward", opened, at, 0, None)


def merged() -> Rows:
    """The same with its short events merged, as of a step that is too large for a page."""
    given = rows()
    kept = tuple(e for e in given.events if e.end_ns - e.start_ns > 100 * US or e.kind == "launch")
    blocks = tuple(
        MergedRow("s2", "GPU-2", 7, None, "compute", START + n * 200 * US, START + (n + 1) * 200 * US, 900, n * 2 * US)
        for n in range(100)
    )
    return replace(given, events=kept, merged=blocks, source_count=64)


def hostile() -> Rows:
    """Names that would leave their place in a page if it let them."""
    given = rows()
    sources = (replace(given.sources[0], node_id=HOSTILE, process_name=HOSTILE), *given.sources[1:])
    events = tuple(
        replace(e, name=HOSTILE, short_name=HOSTILE, detail=HOSTILE) if i % 3 == 0 else e
        for i, e in enumerate(given.events)
    )
    marks = (Mark(HOSTILE, START, START + 20 * MS, "slow", HOSTILE),)
    window = replace(given.window, job_id=HOSTILE, project=HOSTILE, title=HOSTILE, why=HOSTILE)
    devices = (replace(given.devices[0], device_id="GPU-0", name=HOSTILE), *given.devices[1:])
    return replace(given, sources=sources, events=events, marks=marks, window=window, devices=devices)


def bare() -> Rows:
    """A process without GPU, samples or steps."""
    given = rows()
    events = tuple(e for e in given.events if e.source_id == "s0" and e.kind in ("annotation", "step"))
    source = replace(
        given.sources[0], node_id=None, rank=None, gpu_reason="no_gpu_activity_captured", status="degraded"
    )
    return replace(given, sources=(source,), source_count=1, devices=(), events=events, samples=(), marks=())


def large(count: int) -> Rows:
    """So many events of random length, all in the window and on tracks that one screen shows: 12 streams, 2 threads."""
    given, rng, each = rows(), random.Random(7), count // 14
    room, events = max(2, 20 * MS // each), []
    for number in range(14):
        at, is_launch = START, number >= 12
        for n in range(each):
            kind = "launch" if is_launch else ("compute", "communication", "memory")[rng.randrange(3)]
            where = (None, None, number) if is_launch else ("GPU-0", number, None)
            name, end = f"{kind}_{rng.randrange(300)}", at + rng.randrange(room) + 1
            events.append(EventRow("s0", *where, kind, name, None, None, at, end, number % 2 * each + n))
            at += room + n % 7
    window = replace(given.window, start_ns=START, end_ns=max(e.end_ns for e in events))
    return replace(given, events=tuple(events), sources=given.sources[:1], devices=given.devices[:1], window=window)
