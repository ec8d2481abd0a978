"""What is true of a simulated fleet, worked out apart from the pipeline: the expected values of its tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracelake.recorder.simulate.events import Interval, RankEvents


@dataclass(frozen=True)
class DeviceTruth:
    """One rank and its device. The four parts of the ledger and idle add up to the window exactly."""

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

    @property
    def idle_ns(self) -> int | None:
        return None if self.window_ns is None else self.window_ns - self.busy_ns


@dataclass(frozen=True)
class JobTruth:
    """One job: its fault, who is guilty, and what it costs."""

    job_id: str
    fault: str
    state: str
    guilty_node_id: str | None
    guilty_ranks: tuple[int, ...]
    excess_ns: Mapping[int, int]
    """By faulty step: how much longer the slowest rank's step lasts than in the same job without the fault."""
    compute_factors: Mapping[int, float]
    """By guilty rank: how much longer its compute kernels last in the faulty steps."""
    clock_offsets_ns: Mapping[str, int]
    """By node: how far its clock is ahead of true time."""
    interrupted_source_ids: tuple[str, ...]
    """Windows without a closing row."""
    devices: tuple[DeviceTruth, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Rows by raw table."""
        kinds = self.devices[0].counts
        return {kind: sum(device.counts[kind] for device in self.devices) for kind in kinds}


@dataclass(frozen=True)
class Truth:
    """The whole fleet of one simulated day."""

    seed: int
    day: str
    jobs: tuple[JobTruth, ...]

    @property
    def events_count(self) -> int:
        return sum(sum(job.counts.values()) for job in self.jobs)

    def job(self, fault: str) -> JobTruth:
        """The job with that fault; each fault is in one job."""
        return next(job for job in self.jobs if job.fault == fault)


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The union of half-open intervals as disjoint ones, in order: one sweep over the sorted starts."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in merge(intervals))


def device_truth(
    events: RankEvents, *, source_id: str, rank: int, node_id: str, device_id: str, closed: bool
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
    )


def excess(faulty: Sequence[RankEvents], healthy: Sequence[RankEvents], occurrences: Iterable[int]) -> dict[int, int]:
    """By step: the slowest rank's time with the fault less that without it, all else equal."""

    def slowest(ranks: Sequence[RankEvents], step: int) -> int:
        return max(events.steps[step][1] - events.steps[step][0] for events in ranks)

    return {step: slowest(faulty, step) - slowest(healthy, step) for step in occurrences}
