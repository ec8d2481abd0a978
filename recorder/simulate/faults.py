"""What can be wrong with a job: each kind of fault, the unit of its size, and the names under which it must be found.

docs/simulator.md is the table of kinds for readers; a test compares it with `KINDS`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of fault and its truth. Names of classes and causes are those of docs/metrics.md."""

    cause: str
    """Under which name a finding is right."""
    unit: str
    """Of a fault's size: ratio, ns, reads or launches of each kernel, steps, ppm; empty where it has none."""
    ledger: str | None = None
    """Class of the step ledger that grows; NULL where no step does."""
    idle: str | None = None
    """Cause of idle that grows, where the device waits."""
    is_expected: bool = True
    """Whether it must be found. What belongs to training, such as checkpoints, must not be."""
    shows_rank: bool = True
    """Whether events tell which rank is to blame: of a slow link all ranks see the same."""


KINDS = {
    "slow_rank": Kind("compute", "ratio", "compute"),
    "slow_node": Kind("compute", "ratio", "compute"),
    "slow_step": Kind("compute", "ratio", "compute"),
    "throttled": Kind("throttled", "ratio", "compute"),
    "fp32_matmul": Kind("precision", "ratio", "compute"),
    "drift": Kind("drift", "ratio", "compute", is_expected=False),
    "slow_host": Kind("host_work", "ratio", "host_work", "python_or_other"),
    "slow_launches": Kind("runtime", "ratio", "runtime", "launch_latency"),
    "launch_bound": Kind("launch_bound", "launches", "host_work", "python_or_other"),
    "excess_sync": Kind("synchronize", "reads", "runtime", "synchronize"),
    "sync_stall": Kind("synchronize", "ns", "runtime", "synchronize"),
    "data_loading": Kind("data_loading", "ns", "data_loading", "data_loading"),
    "data_stall": Kind("data_loading", "ns", "data_loading", "data_loading"),
    "python_pause": Kind("python_or_other", "ns", "other", "python_or_other"),
    "late_rank": Kind("host_work", "ns", "host_work", "python_or_other"),
    "copy_bound": Kind("memcpy", "ns", "memcpy", "copy"),
    "slow_link": Kind("exposed_comm", "ratio", "exposed_comm", shows_rank=False),
    "checkpoint": Kind("checkpoint", "ns", "host_work", "checkpoint", is_expected=False),
    "evaluation": Kind("evaluation", "ns", "compute", is_expected=False),
    "warm_up": Kind("warm_up", "ns", "other", "python_or_other", is_expected=False),
    "memory_leak": Kind("memory_leak", "ratio"),
    "late_clock": Kind("clock", "ns", is_expected=False),
    "clock_drift": Kind("clock", "ppm", is_expected=False),
    "killed_process": Kind("killed_process", ""),
    "resumed": Kind("redone_steps", "steps"),
}
COMPUTE_KINDS = frozenset(("slow_rank", "slow_node", "slow_step", "throttled"))
"""Make every compute kernel of a rank last longer."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: what, how much, where, and in which steps. Without rank and node it is everywhere."""

    kind: str
    size: float = 0.0
    """In the unit of its kind; a ratio is what comes on top: 0.25 lasts a quarter longer."""
    node: int | None = None
    rank: int | None = None
    first: int = 0
    """Step from which it acts."""
    every: int = 1
    count: int | None = None
    """How many steps it touches; NULL is all of them to the end."""
    spread: float = 0.0
    """Each step's size lies within this ratio of `size`, by the seed."""
    lowers_clock: bool = False
    """Whether samples show a lower clock with the longer kernels; that of a throttled device is always lower."""
    nominal: float | None = None
    """What it was sized to add to the usual step, relative to it; NULL where no step is measured."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Fault: no kind {self.kind!r}; one of {', '.join(KINDS)}")

    def steps(self, total: int) -> range:
        """The steps that it touches, of a job of so many."""
        last = total if self.count is None else min(total, self.first + self.every * self.count)
        return range(self.first, last, self.every)

    def touches(self, step: int) -> bool:
        """Whether it acts in a step of the job."""
        past, rest = divmod(step - self.first, self.every)
        return past >= 0 and not rest and (self.count is None or past < self.count)

    @property
    def is_throttling(self) -> bool:
        return self.kind == "throttled" or self.lowers_clock

    @property
    def cause(self) -> str:
        return "throttled" if self.is_throttling else KINDS[self.kind].cause
