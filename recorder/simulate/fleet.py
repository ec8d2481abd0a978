"""The fleet: its machines, the six jobs that it runs in a day, and what is wrong with each."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tracelake.recorder.simulate import workloads
from tracelake.recorder.simulate.faults import Fault
from tracelake.recorder.simulate.noise import USUAL, Noise
from tracelake.recorder.simulate.workloads import Workload

SECOND_NS = 1_000_000_000
SLOWDOWN = 1.25
"""Compute kernels of the slow node last this much longer."""
SLOW_STEP_FACTOR = 9
"""Of the slow step's compute kernels; with what does not slow down the step as a whole lasts 8 times as long."""
STALL_EVERY = 6
"""Every so many steps the loader has nothing ready."""
STALL_NS = (120_000_000, 180_000_000)
STALL_SPREAD = 0.2
CLOCK_AHEAD_NS = 5_000_000
FEWEST_STEPS = 6
"""Below this a scaled job would lose its fault."""


@dataclass(frozen=True)
class Hardware:
    """A machine type with its devices."""

    instance_type: str
    device: str
    memory_bytes: int
    sm_count: int
    compute_capability: str
    idle_watts: int
    peak_watts: int
    sm_clock_hz: int


H100 = Hardware("p5.48xlarge", "NVIDIA H100 80GB HBM3", 85_029_158_912, 132, "9.0", 72, 700, 1_980_000_000)
A100 = Hardware("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 42_298_834_944, 108, "8.0", 55, 400, 1_410_000_000)
L40S = Hardware("g6e.24xlarge", "NVIDIA L40S", 47_810_936_832, 142, "8.9", 35, 350, 2_520_000_000)


@dataclass(frozen=True)
class Job:
    """One training job: what it runs, where, since when, and what is wrong with it."""

    job_id: str
    workload: Workload
    hardware: Hardware
    nodes: int
    devices_per_node: int
    steps: int
    start_second: int
    """Start within the day."""
    first_node: int = 0
    """Index of its first node among the machines of its type."""
    has_autograd_thread: bool = False
    """Whether a second thread launches the backward pass."""
    project: str = ""
    user: str = ""
    family: str = ""
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    noise: Noise = USUAL
    windows: tuple[tuple[int, int], ...] = ()
    """Steps [first, end) of each recorded window; empty: one window holds them all."""
    has_markers: bool = True
    """Whether annotations name the steps."""
    reads_reasons: bool = False
    """Whether samples hold why the clock is not at its highest."""
    micro_batches: int | None = None
    """Micro-batches of a step whose ranks are the stages of a pipeline; None: they work on parts of the batch."""
    also_true: tuple[str, ...] = ()
    """Causes that hold of the model itself, without any fault: finding them is right."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.devices_per_node

    def node_of(self, rank: int) -> int:
        return rank // self.devices_per_node

    def guilty(self, fault: Fault) -> tuple[int, ...]:
        """The ranks that a fault singles out; none where it is everywhere."""
        if fault.rank is not None:
            return (fault.rank,)
        return tuple(rank for rank in range(self.world_size) if self.node_of(rank) == fault.node)

    def suffers(self, fault: Fault, rank: int) -> bool:
        """Whether a fault acts on the rank itself; how long the others wait for it is their affair."""
        if fault.rank is not None:
            return fault.rank == rank
        return fault.node is None or fault.node == self.node_of(rank)

    @property
    def fault_name(self) -> str:
        return "+".join(fault.kind for fault in self.faults) or "healthy"

    def without(self, fault: Fault) -> Job:
        """The same job, all else equal."""
        return replace(self, faults=tuple(other for other in self.faults if other != fault))

    def of_kind(self, kind: str) -> Fault | None:
        return next((fault for fault in self.faults if fault.kind == kind), None)

    def clock_offset_ns(self, node: int) -> int:
        late = (fault for fault in self.faults if fault.kind == "late_clock" and fault.node == node)
        return sum(round(fault.size) for fault in late)

    def clock_drift_ppm(self, node: int) -> float:
        return sum(fault.size for fault in self.faults if fault.kind == "clock_drift" and fault.node == node)


@dataclass(frozen=True)
class Node:
    """One machine. It keeps its name and devices in every job that it serves."""

    node_id: str
    instance_id: str
    device_uuids: tuple[str, ...]
    boot_ns: int
    """Age of its monotonic clock at the start of the day."""


def node(seed: int, job: Job, index: int) -> Node:
    number = job.first_node + index
    rng = random.Random(f"{seed}/{job.hardware.instance_type}/{number}")
    kind = job.hardware.instance_type.split(".")[0]
    return Node(
        f"{kind}-{number + 1:02d}",
        f"i-{rng.getrandbits(64):017x}",
        tuple(f"GPU-{uuid.UUID(int=rng.getrandbits(128), version=4)}" for _ in range(8)),
        rng.randint(3_600, 20 * 86_400) * SECOND_NS,
    )


def source_id(seed: int, job: Job, rank: int, start_ns: int) -> str:
    """UUIDv7 of a window: its milliseconds, then bits that depend on the seed only."""
    tail = random.Random(f"{seed}/{job.job_id}/{rank}/source").getrandbits(80)
    bits = (start_ns // 1_000_000) << 80 | tail
    return str(uuid.UUID(int=bits & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62))


def day_start_ns(day: dt.date) -> int:
    return int(dt.datetime(day.year, day.month, day.day, tzinfo=dt.timezone.utc).timestamp()) * SECOND_NS


JOBS = (
    Job(
        "llm-70b-pretrain-0142",
        workloads.LLM_BF16,
        H100,
        nodes=4,
        devices_per_node=8,
        steps=20,
        start_second=1 * 3_600 + 754,
        has_autograd_thread=True,
        project="foundation",
        user="maria.keller",
        family="llm-70b-pretrain",
        hyperparameters={"learning_rate": "1.5e-4", "global_batch": "1024", "seq_len": "8192", "dtype": "bf16"},
        tags={"wandb.run_id": "3k9f2a1x", "team": "foundation", "stage": "pretrain"},
    ),
    Job(
        "bert-large-finetune-0077",
        workloads.BERT_BF16,
        A100,
        nodes=4,
        devices_per_node=4,
        steps=32,
        faults=(Fault("slow_node", SLOWDOWN - 1, node=2, lowers_clock=True),),
        start_second=4 * 3_600 + 1_205,
        project="search",
        user="j.okafor",
        family="bert-large-finetune",
        hyperparameters={"learning_rate": "3e-5", "global_batch": "512", "seq_len": "512", "dtype": "bf16"},
        tags={"mlflow.run_id": "9b1c77de20", "team": "search"},
    ),
    Job(
        "vit-huge-compile-0009",
        workloads.VISION_COMPILED,
        L40S,
        nodes=2,
        devices_per_node=4,
        steps=36,
        faults=(Fault("data_stall", sum(STALL_NS) / 2, first=3, every=STALL_EVERY, spread=STALL_SPREAD),),
        start_second=7 * 3_600 + 88,
        has_autograd_thread=True,
        project="vision",
        user="sora.lim",
        family="vit-huge-compile",
        hyperparameters={"learning_rate": "1e-3", "global_batch": "2048", "num_workers": "2", "compile": "true"},
        tags={"mlflow.run_id": "51aa90cc3e", "team": "vision"},
    ),
    Job(
        "llm-8b-fp8-0031",
        workloads.LLM_FP8,
        H100,
        nodes=1,
        devices_per_node=8,
        steps=36,
        faults=(Fault("slow_step", SLOW_STEP_FACTOR - 1, 0, 5, first=24, count=1, lowers_clock=True),),
        start_second=11 * 3_600 + 2_310,
        first_node=2,
        project="foundation",
        user="maria.keller",
        family="llm-8b-fp8",
        hyperparameters={"learning_rate": "3e-4", "global_batch": "256", "seq_len": "4096", "dtype": "fp8"},
        tags={"wandb.run_id": "8h2m0z7q", "team": "foundation", "stage": "ablation"},
    ),
    Job(
        "resnet-fp32-baseline-0003",
        workloads.CONVNET_FP32,
        L40S,
        nodes=2,
        devices_per_node=4,
        steps=28,
        faults=(Fault("late_clock", CLOCK_AHEAD_NS, node=1),),
        start_second=15 * 3_600 + 417,
        first_node=2,
        project="vision",
        user="t.nguyen",
        family="resnet-fp32-baseline",
        hyperparameters={"learning_rate": "0.1", "global_batch": "1024", "dtype": "fp32", "allow_tf32": "false"},
        tags={"team": "vision"},
    ),
    Job(
        "speech-encoder-0218",
        workloads.ENCODER_SOFTMAX,
        A100,
        nodes=2,
        devices_per_node=2,
        steps=30,
        faults=(Fault("killed_process", node=1, rank=3, first=20, count=1),),
        start_second=20 * 3_600 + 3_005,
        first_node=4,
        project="speech",
        user="p.moreau",
        family="speech-encoder",
        hyperparameters={"learning_rate": "2e-4", "global_batch": "128", "dtype": "bf16"},
        tags={"mlflow.run_id": "07fd4410ab", "team": "speech"},
    ),
)


def jobs(scale: float = 1.0) -> tuple[Job, ...]:
    """The day's jobs; `scale` multiplies their steps."""
    return tuple(_scaled(job, max(FEWEST_STEPS, round(job.steps * scale))) for job in JOBS)


def _scaled(job: Job, steps: int) -> Job:
    """A fault that strikes once stays at its share of the job."""
    faults = (replace(f, first=f.first * steps // job.steps) if f.count == 1 else f for f in job.faults)
    return replace(job, steps=steps, faults=tuple(faults))
