"""What is true of simulated jobs, worked out apart from the pipeline: the expected values of its tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracelake.recorder.simulate.events import RankEvents
from tracelake.recorder.simulate.intervals import length


@dataclass(frozen=True)
class DeviceTruth:
    """One window of a rank and its device. The four parts of the ledger and idle add up to the window exactly."""

    source_id: str
    rank: int
    node_id: str
    device_id: str
    window_ns: int | None
    """NULL for a process that died: it never said when its window ended."""
    counts: Mapping[str, int]
    """Rows by raw table."""
    kernel_sum_ns: int
    compute_ns: int
    exposed_comm_ns: int
    exposed_mem_ns: int
    busy_ns: int
    """Union of all kernels and memory operations."""
    overlapped_comm_ns: int
    step_durations_ns: tuple[int, ...]
    """Steps that ended, by occurrence."""
    attempt: int = 0

    @property
    def idle_ns(self) -> int | None:
        return None if self.window_ns is None else self.window_ns - self.busy_ns


@dataclass(frozen=True)
class FaultTruth:
    """One fault of a job: what it is called, who is guilty, which steps it touches, and what it costs."""

    kind: str
    cause: str
    """Under which name a finding is right."""
    ledger_class: str | None
    """Class of the step ledger that grows; NULL where no step lasts longer."""
    idle_cause: str | None
    size: float
    unit: str
    nominal_ratio: float | None
    """What it was sized to add to the usual step."""
    found_in: str
    """The table that must name it: stragglers, outlier_steps, findings, sources, fleet_daily; nothing, where finding
    it would be wrong."""
    ranks: tuple[int, ...]
    """Who is guilty; none where the fault is everywhere."""
    node_id: str | None
    shows_rank: bool
    """Whether the events tell who is guilty."""
    attempt: int
    excess_ns: Mapping[int, int]
    """By occurrence of a touched step: how much longer the slowest rank's step lasts than in the same job without this
    fault. All that a fault costs, and nothing where another fault hides it."""
    own_excess_ns: Mapping[int, int]
    """How much longer a guilty rank would take if it were alone and never waited; the most of any of them."""
    usual_step_ns: int
    """Median step, of the slowest rank each, without this fault."""
    cost_ns: int
    """Device time that all ranks lose."""

    @property
    def ratio(self) -> float:
        """Mean excess of the touched steps, relative to the usual step."""
        touched = self.excess_ns.values()
        return sum(touched) / len(touched) / self.usual_step_ns if touched else 0.0


@dataclass(frozen=True)
class JobTruth:
    """One job: what is wrong with it, who is guilty, and what it costs."""

    job_id: str
    fault: str
    """Kinds of its faults, joined by +; healthy without any."""
    noise: str
    state: str
    world_size: int
    guilty_node_id: str | None
    """Of the first fault."""
    compute_factors: Mapping[int, float]
    """By guilty rank: how much longer its compute kernels last in the faulty steps."""
    clock_offsets_ns: Mapping[str, int]
    """By node: how far its clock is ahead of true time."""
    clock_drifts_ppm: Mapping[str, float]
    interrupted_source_ids: tuple[str, ...]
    """Windows without a closing row."""
    faults: tuple[FaultTruth, ...]
    also_true: tuple[str, ...]
    """Causes that hold of the model itself, without any fault: finding them is right."""
    devices: tuple[DeviceTruth, ...]
    bubble_ratio: float | None = None
    """Of a pipeline: the share of its time in which each of its equal stages idles."""

    @property
    def guilty_ranks(self) -> tuple[int, ...]:
        return tuple(sorted({rank for fault in self.faults for rank in fault.ranks}))

    @property
    def excess_ns(self) -> dict[int, int]:
        """By touched step: what the faults cost, each for itself."""
        steps = sorted({step for fault in self.faults for step in fault.excess_ns})
        return {step: sum(fault.excess_ns.get(step, 0) for fault in self.faults) for step in steps}

    @property
    def benign_steps(self) -> dict[str, tuple[int, ...]]:
        """Steps that last longer and are no outliers, by why."""
        return {fault.kind: tuple(fault.excess_ns) for fault in self.faults if fault.found_in == "nothing"}

    @property
    def counts(self) -> dict[str, int]:
        """Rows by raw table."""
        kinds = self.devices[0].counts
        return {kind: sum(device.counts[kind] for device in self.devices) for kind in kinds}


@dataclass(frozen=True)
class Truth:
    """All jobs of one simulated day."""

    seed: int
    day: str
    jobs: tuple[JobTruth, ...]

    @property
    def events_count(self) -> int:
        return sum(sum(job.counts.values()) for job in self.jobs)

    def job(self, fault: str) -> JobTruth:
        """The first job with that fault; in the fleet each fault is in one job."""
        return next(job for job in self.jobs if job.fault == fault)


def device_truth(
    events: RankEvents, *, source_id: str, rank: int, node_id: str, device_id: str, closed: bool, attempt: int = 0
) -> DeviceTruth:
    compute = [(k.start_ns, k.start_ns + k.duration_ns) for k in events.kernels if k.collective_name is None]
    comm = [(k.start_ns, k.start_ns + k.duration_ns) for k in events.kernels if k.collective_name is not None]
    memory = [(m.start_ns, m.start_ns + m.duration_ns) for m in events.memops]
    compute_ns, kernel_ns, busy_ns = length(compute), length(compute + comm), length(compute + comm + memory)
    return DeviceTruth(
        source_id=source_id,
        rank=rank,
        node_id=node_id,
        device_id=device_id,
        window_ns=events.window_end_ns - events.window_start_ns if closed else None,
        counts={kind: len(rows) for kind, rows in events.tables().items()},
        kernel_sum_ns=sum(kernel.duration_ns for kernel in events.kernels),
        compute_ns=compute_ns,
        exposed_comm_ns=kernel_ns - compute_ns,
        exposed_mem_ns=busy_ns - kernel_ns,
        busy_ns=busy_ns,
        overlapped_comm_ns=length(comm) - (kernel_ns - compute_ns),
        step_durations_ns=tuple(end - start for start, end in events.steps),
        attempt=attempt,
    )
