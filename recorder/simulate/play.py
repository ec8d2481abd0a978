"""Plays a job step by step: hosts launch, streams work in order, collectives end when the last rank has joined."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tracelake.recorder.simulate.events import RankEvents, between, cut
from tracelake.recorder.simulate.faults import Fault
from tracelake.recorder.simulate.fleet import SECOND_NS, Job
from tracelake.recorder.simulate.names import Shape
from tracelake.recorder.simulate.pipelined import play_pipeline
from tracelake.recorder.simulate.player import MARGIN_NS, Player
from tracelake.recorder.simulate.workloads import LOSS, Collective

ABORT_NS = 30_000_000
"""After a process dies its launcher takes this long to end the others."""
RESTART_NS = 2_000_000_000
"""After a job has failed its scheduler takes this long to start it again."""


@dataclass(frozen=True)
class Recorded:
    """One recorded window of one process, in true time."""

    rank: int
    attempt: int
    number: int
    """Counts the windows of the process."""
    events: RankEvents
    is_closed: bool = True
    state: str = "completed"


class Ensemble:
    """Ranks of a job in lockstep, because each collective needs them all."""

    def __init__(
        self,
        job: Job,
        seed: int,
        start_ns: int,
        *,
        ranks: Iterable[int] | None = None,
        attempt: int = 0,
        first_step: int = 0,
    ) -> None:
        self.job = job
        self.players = [
            Player(job, rank, seed, start_ns, attempt=attempt, first_step=first_step)
            for rank in (range(job.world_size) if ranks is None else ranks)
        ]
        self.rng = random.Random(f"{seed}/{job.job_id}/network" + (f"/{attempt}" if attempt else ""))
        self.sequence = 0

    def reduce(self, collective: Collective) -> None:
        """A ring moves at its slowest member's pace: it starts to move when all are there and ends at once."""
        starts = [player.join(collective) for player in self.players]
        link = max(player.effect.link for player in self.players)
        end_ns = max(starts) + round(collective.shape.mean_ns * self.rng.uniform(0.95, 1.05) * link)
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
        if self.job.micro_batches:
            play_pipeline(self.players, self.job.micro_batches)
            return
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

    def play(self, steps: int) -> list[RankEvents]:
        """Play so many steps; returns what every rank left, by rank."""
        for _ in range(steps):
            self.play_step()
        ranks = [player.events for player in self.players]
        end_ns = max(player.host_ns for player in self.players) + MARGIN_NS
        for events in ranks:
            events.window_end_ns = end_ns
        return ranks


def play(job: Job, seed: int, day_ns: int) -> list[RankEvents]:
    """What every rank of the job's first attempt recorded, by rank, in true time."""
    ranks = Ensemble(job, seed, _start_ns(job, seed, day_ns)).play(job.steps)
    killed = job.of_kind("killed_process")
    return ranks if killed is None else _killed(ranks, killed.first, job.guilty(killed))


def play_alone(job: Job, rank: int, seed: int, day_ns: int) -> RankEvents:
    """What a rank would leave if it never had to wait for the others: its collectives take their transfer only."""
    (events,) = Ensemble(job, seed, _start_ns(job, seed, day_ns), ranks=[rank]).play(job.steps)
    return events


def _start_ns(job: Job, seed: int, day_ns: int) -> int:
    return day_ns + job.start_second * SECOND_NS + random.Random(f"{seed}/{job.job_id}/start").randrange(SECOND_NS)


def record(job: Job, seed: int, day_ns: int) -> list[Recorded]:
    """Every window of the job: attempts in order, ranks in order, windows in order."""
    resumed = job.of_kind("resumed")
    ranks = play(job, seed, day_ns)
    if resumed is None:
        killed = job.of_kind("killed_process")
        dead = job.guilty(killed) if killed else ()
        return _windows(job, 0, ranks, "failed" if killed else "completed", dead)
    failed = _killed(ranks, resumed.first, tuple(range(job.world_size)))
    again = _again(job, seed, resumed, failed)
    return [*_windows(job, 0, failed, "failed"), *_windows(job, 1, again, "completed")]


def _windows(
    job: Job, attempt: int, ranks: Sequence[RankEvents], state: str, dead: Sequence[int] = ()
) -> list[Recorded]:
    """The windows of an attempt; `dead` are the ranks whose process never closed its own."""
    return [
        Recorded(rank, attempt, number, window, rank not in dead, state)
        for rank, events in enumerate(ranks)
        for number, window in enumerate([between(events, *steps) for steps in job.windows] or [events])
    ]


def _killed(ranks: Sequence[RankEvents], step: int, guilty: Sequence[int]) -> list[RankEvents]:
    """The guilty ranks die in mid step; the others hang in its collective until the launcher ends them."""
    start_ns, end_ns = ranks[guilty[0]].steps[step]
    died_ns = start_ns + (end_ns - start_ns) * 9 // 20
    left = [cut(events, died_ns) for events in ranks]
    for rank, events in enumerate(left):
        events.window_end_ns = died_ns if rank in guilty else died_ns + ABORT_NS
    return left


def _again(job: Job, seed: int, resumed: Fault, failed: Sequence[RankEvents]) -> list[RankEvents]:
    """The second attempt: from the last checkpoint on, some steps before the one in which the first died."""
    first_step = max(0, resumed.first - round(resumed.size))
    start_ns = max(events.window_end_ns for events in failed) + RESTART_NS
    ensemble = Ensemble(job, seed, start_ns, attempt=1, first_step=first_step)
    return ensemble.play(job.steps - first_step)
