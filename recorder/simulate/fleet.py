"""The fleet: its machines, the six jobs that it runs in a day, and what is wrong with each."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tracelake.recorder.simulate import workloads
from tracelake.recorder.simulate.workloads import Workload

SECOND_NS = 1_000_000_000
SLOWDOWN = 1.25
"""Compute kernels of the slow node last this much longer."""
SLOW_STEP_FACTOR = 9
"""Of the slow step's compute kernels; with what does not slow down the step as a whole lasts 8 times as long."""
STALL_EVERY = 6
"""Every so many steps the loader has nothing ready."""
STALL_NS = (120_000_000, 180_000_000)
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
class Fault:
    """What is wrong with a job. kind: healthy, slow_node, data_stall, slow_step, late_clock or killed_process."""

    kind: str = "healthy"
    node: int | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Job:
    """One training job: what it runs, where, since when, and its fault."""

    job_id: str
    workload: Workload
    hardware: Hardware
    nodes: int
    devices_per_node: int
    steps: int
    fault: Fault
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

    @property
    def world_size(self) -> int:
        return self.nodes * self.devices_per_node

    def node_of(self, rank: int) -> int:
        return rank // self.devices_per_node

    @property
    def guilty_ranks(self) -> tuple[int, ...]:
        if self.fault.rank is not None:
            return (self.fault.rank,)
        return tuple(rank for rank in range(self.world_size) if self.node_of(rank) == self.fault.node)

    @property
    def faulty_steps(self) -> tuple[int, ...]:
        """Steps whose duration the fault changes."""
        if self.fault.kind == "slow_node":
            return tuple(range(self.steps))
        if self.fault.kind == "data_stall":
            return tuple(range(3, self.steps, STALL_EVERY))
        return (self.steps * 2 // 3,) if self.fault.kind == "slow_step" else ()

    @property
    def killed_step(self) -> int | None:
        """The step in which the guilty rank dies."""
        return self.steps * 2 // 3 if self.fault.kind == "killed_process" else None

    def compute_factor(self, rank: int, step: int) -> float:
        """How much longer the rank's compute kernels last in a step."""
        if rank not in self.guilty_ranks or step not in self.faulty_steps:
            return 1
        return {"slow_node": SLOWDOWN, "slow_step": SLOW_STEP_FACTOR}.get(self.fault.kind, 1)

    def stall_ns(self, seed: int, step: int) -> int:
        """Extra time that every rank waits for its batch: they read from one storage."""
        if self.fault.kind != "data_stall" or step not in self.faulty_steps:
            return 0
        return random.Random(f"{seed}/{self.job_id}/stall/{step}").randint(*STALL_NS)

    def clock_offset_ns(self, node: int) -> int:
        return CLOCK_AHEAD_NS if self.fault.kind == "late_clock" and node == self.fault.node else 0


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
        fault=Fault(),
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
        fault=Fault("slow_node", node=2),
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
        fault=Fault("data_stall"),
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
        fault=Fault("slow_step", node=0, rank=5),
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
        fault=Fault("late_clock", node=1),
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
        fault=Fault("killed_process", node=1, rank=3),
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
    return tuple(replace(job, steps=max(FEWEST_STEPS, round(job.steps * scale))) for job in JOBS)
