"""Plays a job step by step: hosts launch, streams work in order, collectives end when the last rank has joined."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tracelake.recorder.simulate.events import Annotation, Kernel, Launch, Memop, RankEvents, Sync, cut
from tracelake.recorder.simulate.fleet import SECOND_NS, Job
from tracelake.recorder.simulate.names import Shape
from tracelake.recorder.simulate.workloads import LOSS, Collective

COMPUTE_STREAM = 7
COMM_STREAM = 20
DATA_LOADING = "enumerate(DataLoader)#next"
WORLD_GROUP = "0"
WARM_UP_NS = 140_000_000
"""Extra host work of the first step: allocation, autotuning, compilation."""
MARGIN_NS = 3_000_000
"""Recording opens before the first step and closes after the last."""
PINNED_BYTES_PER_NS = 24
PAGEABLE_BYTES_PER_NS = 7
FILL_BYTES_PER_NS = 900
ABORT_NS = 30_000_000
"""After a process dies its launcher takes this long to end the others."""


class Player:
    """One rank: a host clock, two streams, and the events that they leave."""

    def __init__(self, job: Job, rank: int, seed: int, start_ns: int) -> None:
        self.job, self.rank, self.seed = job, rank, seed
        self.rng = random.Random(f"{seed}/{job.job_id}/{rank}")
        self.device = rank % job.devices_per_node
        self.main_thread = 140_000_000_000_000 + self.rng.randrange(1 << 36)
        self.thread = self.main_thread
        self.events = RankEvents(start_ns)
        self.host_ns = start_ns + MARGIN_NS + self.rng.randint(0, 400_000)
        self.compute_free_ns = self.comm_free_ns = start_ns
        self.correlation = 1_000
        self.step = -1
        self.step_start_ns = self.phase_start_ns = self.host_ns

    def open_step(self) -> None:
        self.step += 1
        self.step_start_ns = self.host_ns
        self.phase_start_ns = self.host_ns
        self.host_ns += self.rng.randint(300_000, 900_000) + self.job.stall_ns(self.seed, self.step)
        self.close_phase(DATA_LOADING)
        if self.step == 0:
            self.host_ns += WARM_UP_NS
        self.copy("htod", "pinned", self.job.workload.batch_bytes)

    def open_phase(self, *, waits: bool, thread: int | None = None) -> None:
        """`waits` makes the compute stream wait for the collectives so far."""
        self.phase_start_ns = self.host_ns
        self.host_ns += self.rng.randint(5_000, 20_000)
        self.thread = thread or self.main_thread
        if waits:
            self.wait_for_collectives()

    def wait_for_collectives(self) -> None:
        """The marker that the wait leaves on the stream takes no time of its own."""
        at_ns = self.compute_free_ns = max(self.compute_free_ns, self.comm_free_ns)
        self.correlation += 1
        marker = Sync("stream_wait_event", None, self.device, COMPUTE_STREAM, at_ns, 0, self.correlation)
        self.events.syncs.append(marker)

    def close_phase(self, text: str) -> None:
        self.thread = self.main_thread
        self.events.annotations.append(
            Annotation("host", text, self.thread, self.phase_start_ns, self.host_ns - self.phase_start_ns)
        )
        self.host_ns += self.rng.randint(2_000, 8_000)

    def close_step(self) -> None:
        """Read the loss, then wait for the stream: the host sees the step's end."""
        self.wait_for_collectives()
        self.copy("dtoh", "pageable", 4)
        done_ns = max(self.compute_free_ns, self.host_ns) + self.rng.randint(3_000, 9_000)
        self.correlation += 1
        wait = Sync(
            "stream_synchronize",
            self.main_thread,
            None,
            COMPUTE_STREAM,
            self.host_ns,
            done_ns - self.host_ns,
            self.correlation,
        )
        self.events.syncs.append(wait)
        self.host_ns = done_ns + self.rng.randint(20_000, 60_000)
        duration_ns = self.host_ns - self.step_start_ns
        self.events.annotations.append(
            Annotation("host", f"step_{self.step}", self.main_thread, self.step_start_ns, duration_ns)
        )
        self.events.steps.append((self.step_start_ns, self.host_ns))
        self.host_ns += self.rng.randint(30_000, 120_000)

    def launch(self, api_name: str) -> int:
        """Call the driver; returns the first instant at which the device can start the work."""
        duration_ns = self.rng.randint(4_000, 9_000)
        self.correlation += 1
        self.events.launches.append(Launch(api_name, self.thread, self.host_ns, duration_ns, self.correlation))
        ready_ns = self.host_ns + duration_ns // 2 + self.rng.randint(1_000, 3_000)
        self.host_ns += duration_ns + self.rng.randint(6_000, 30_000)
        return ready_ns

    def compute(self, shape: Shape) -> None:
        ready_ns = self.launch(shape.api_name)
        start_ns = max(ready_ns, self.compute_free_ns + self.rng.randint(900, 1_800))
        usual_ns = shape.mean_ns * self.rng.uniform(0.97, 1.03)
        duration_ns = round(usual_ns * self.job.compute_factor(self.rank, self.step))
        self.events.kernels.append(
            Kernel(shape.name, start_ns, duration_ns, self.device, COMPUTE_STREAM, self.correlation, *shape[2:])
        )
        self.compute_free_ns = start_ns + duration_ns

    def copy(self, direction: str, memory_kind: str, size: int) -> None:
        rate = PINNED_BYTES_PER_NS if memory_kind == "pinned" else PAGEABLE_BYTES_PER_NS
        self._memop("cudaMemcpyAsync", "memcpy", direction, memory_kind, size, 1_500 + size // rate)

    def fill(self, size: int) -> None:
        self._memop("cudaMemsetAsync", "memset", None, None, size, 1_200 + size // FILL_BYTES_PER_NS)

    def _memop(
        self, api_name: str, kind: str, direction: str | None, memory_kind: str | None, size: int, duration_ns: int
    ) -> None:
        start_ns = max(self.launch(api_name), self.compute_free_ns + 1_000)
        where = (self.device, COMPUTE_STREAM, self.correlation)
        self.events.memops.append(Memop(kind, direction, memory_kind, size, start_ns, duration_ns, *where))
        self.compute_free_ns = start_ns + duration_ns

    def join(self, collective: Collective) -> int:
        """Launch a collective once its input is computed; returns the instant at which this rank is there."""
        ready_ns = self.launch(collective.shape.api_name)
        return max(ready_ns, self.compute_free_ns + 1_500, self.comm_free_ns + 1_000)

    def leave(self, collective: Collective, sequence: int, start_ns: int, end_ns: int) -> None:
        where = (self.device, COMM_STREAM, self.correlation, *collective.shape[2:])
        what = (collective.operation, collective.dtype, collective.message_bytes)
        group = (WORLD_GROUP, self.job.world_size, sequence)
        self.events.kernels.append(Kernel(collective.shape.name, start_ns, end_ns - start_ns, *where, *what, *group))
        self.comm_free_ns = end_ns


class Ensemble:
    """All ranks of a job in lockstep, because each collective needs them all."""

    def __init__(self, job: Job, seed: int, start_ns: int) -> None:
        self.job = job
        self.players = [Player(job, rank, seed, start_ns) for rank in range(job.world_size)]
        self.rng = random.Random(f"{seed}/{job.job_id}/network")
        self.sequence = 0

    def reduce(self, collective: Collective) -> None:
        """A ring moves at its slowest member's pace: it starts to move when all are there and ends at once."""
        starts = [player.join(collective) for player in self.players]
        end_ns = max(starts) + round(collective.shape.mean_ns * self.rng.uniform(0.95, 1.05))
        for player, start_ns in zip(self.players, starts, strict=True):
            player.leave(collective, self.sequence, start_ns, end_ns)
        self.sequence += 1

    def _run(self, shapes: Sequence[Shape]) -> None:
        for player in self.players:
            for shape in shapes:
                player.compute(shape)

    @contextmanager
    def _phase(self, text: str, *, waits: bool = False, second_thread: bool = False) -> Iterator[None]:
        for player in self.players:
            player.open_phase(waits=waits, thread=player.main_thread + 4_096 if second_thread else None)
        yield
        for player in self.players:
            player.close_phase(text)

    def play_step(self) -> None:
        workload = self.job.workload
        for player in self.players:
            player.open_step()
        with self._phase("forward"):
            if workload.gather:
                self.reduce(workload.gather)
            self._run(workload.forward * workload.layers)
        with self._phase("backward", waits=workload.gather is not None, second_thread=self.job.has_autograd_thread):
            for player in self.players:
                player.fill(workload.batch_bytes)
            for _ in range(workload.layers):
                self._run(workload.backward)
                self.reduce(workload.reduction)
        with self._phase("optimizer", waits=True):
            self._run(workload.optimizer)
            self.reduce(LOSS)
        for player in self.players:
            player.close_step()


def play(job: Job, seed: int, day_ns: int) -> list[RankEvents]:
    """What every rank of the job recorded, by rank, in true time."""
    start_ns = day_ns + job.start_second * SECOND_NS + random.Random(f"{seed}/{job.job_id}/start").randrange(SECOND_NS)
    ensemble = Ensemble(job, seed, start_ns)
    for _ in range(job.steps):
        ensemble.play_step()
    ranks = [player.events for player in ensemble.players]
    end_ns = max(player.host_ns for player in ensemble.players) + MARGIN_NS
    for events in ranks:
        events.window_end_ns = end_ns
    return ranks if job.killed_step is None else _killed(job, ranks, job.killed_step)


def _killed(job: Job, ranks: Sequence[RankEvents], step: int) -> list[RankEvents]:
    """The guilty rank dies in mid step; the others hang in its collective until the launcher ends them."""
    start_ns, end_ns = ranks[job.guilty_ranks[0]].steps[step]
    died_ns = start_ns + (end_ns - start_ns) * 9 // 20
    left = [cut(events, died_ns) for events in ranks]
    for rank, events in enumerate(left):
        events.window_end_ns = died_ns if rank in job.guilty_ranks else died_ns + ABORT_NS
    return left
