"""One rank of a played job: its host calls, what its two streams do, and the events that both leave."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from tracelake.recorder.simulate import names
from tracelake.recorder.simulate.effects import Effect, effect
from tracelake.recorder.simulate.events import Annotation, Kernel, Launch, Memop, RankEvents, Sync
from tracelake.recorder.simulate.fleet import Job
from tracelake.recorder.simulate.names import Shape
from tracelake.recorder.simulate.noise import pace
from tracelake.recorder.simulate.workloads import LOSS, Collective

COMPUTE_STREAM = 7
COMM_STREAM = 20
DATA_LOADING = "enumerate(DataLoader)#next"
CHECKPOINT = "save_checkpoint"
EVALUATION = "evaluation"
HOST_WORK = "log_metrics"
WORLD_GROUP = "0"
WARM_UP_NS = 140_000_000
"""Extra host work of the first step: allocation, autotuning, compilation."""
MARGIN_NS = 3_000_000
"""Recording opens before the first step and closes after the last."""
PINNED_BYTES_PER_NS = 24
PAGEABLE_BYTES_PER_NS = 7
FILL_BYTES_PER_NS = 900
MEAN_PYTHON_NS = 18_000
WAKE_UP_NS = 30_000
"""A thread that sleeps in a synchronization comes back so long after the device is done."""
CHECKPOINT_COPY_RATIO = 0.25
"""Share of a checkpoint that copies weights to the host; the rest writes them."""
_MATMULS = {names.NVJET, names.GEMM_H100, names.GEMM_A100, names.NVJET_FP8, names.GEMM_FP8}


class Player:
    """One process: a host clock, two streams, and the events that they leave."""

    def __init__(self, job: Job, rank: int, seed: int, start_ns: int, *, attempt: int = 0, first_step: int = 0) -> None:
        self.job, self.rank, self.seed = job, rank, seed
        self.name = f"{seed}/{job.job_id}/{rank}" + (f"/{attempt}" if attempt else "")
        self.rng = random.Random(self.name)
        self.own_rngs: dict[str, random.Random] = {}
        self.device = rank % job.devices_per_node
        self.main_thread = 140_000_000_000_000 + self.rng.randrange(1 << 36)
        self.thread = self.main_thread
        self.events = RankEvents(start_ns, first_step=first_step)
        self.host_ns = start_ns + MARGIN_NS + self.rng.randint(0, 400_000)
        self.compute_free_ns = self.comm_free_ns = start_ns
        self.correlation = 1_000
        self.moves = 0
        self.step = first_step - 1
        self.step_start_ns = self.phase_start_ns = self.host_ns
        self.effect = Effect()
        self.read_debt = self.piece_debt = 0.0
        self.pace = 1.0
        self.jitter = (1 - job.noise.kernel, 1 + job.noise.kernel)

    @contextmanager
    def apart(self, purpose: str) -> Iterator[None]:
        """Draw from a generator of its own: what a fault adds must not change what the job does without it."""
        usual = self.rng
        self.rng = self.own_rngs.setdefault(purpose, random.Random(f"{self.name}/{purpose}"))
        yield
        self.rng = usual

    def open_step(self) -> None:
        self.step += 1
        self.effect = effect(self.job, self.rank, self.step, self.seed)
        self.pace = pace(self.job.noise, f"{self.seed}/{self.job.job_id}", self.rank, self.step)
        self.step_start_ns = self.host_ns
        self.phase_start_ns = self.host_ns
        self.host_ns += self.rng.randint(*self.job.workload.loading_ns) + self.effect.loading_ns
        self.close_phase(DATA_LOADING)
        if self.step == self.events.first_step:
            self.host_ns += WARM_UP_NS
        self.copy("htod", "pinned", self.job.workload.batch_bytes)
        self._hold_host()

    def _hold_host(self) -> None:
        """What keeps the main thread from launching, while the device has nothing to do."""
        added = self.effect
        self.host_ns += added.pause_ns
        if added.work_ns:
            self.events.annotations.append(Annotation("host", HOST_WORK, self.main_thread, self.host_ns, added.work_ns))
            self.host_ns += added.work_ns
        if added.stall_ns:
            self._wait("device_synchronize", None, self.host_ns + added.stall_ns)
        if added.copy_ns:
            with self.apart("copies"):
                self._blocking_copy("htod", added.copy_ns)

    def _blocking_copy(self, direction: str, duration_ns: int) -> None:
        """From or to pageable memory: the call returns when the copy is done."""
        self.copy(direction, "pageable", max(0, duration_ns - 1_500) * PAGEABLE_BYTES_PER_NS)
        call = self.events.launches[-1]
        self.host_ns = max(self.host_ns, self.compute_free_ns)
        self.events.launches[-1] = call._replace(duration_ns=self.host_ns - call.start_ns)

    def _wait(self, kind: str, stream_id: int | None, end_ns: int) -> None:
        """Block the host until an instant."""
        self.correlation += 1
        length_ns = end_ns - self.host_ns
        self.events.syncs.append(Sync(kind, self.thread, None, stream_id, self.host_ns, length_ns, self.correlation))
        self.host_ns = end_ns

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
        self._save_and_evaluate()
        self.wait_for_collectives()
        self.copy("dtoh", "pageable", 4)
        done_ns = max(self.compute_free_ns, self.host_ns) + self.rng.randint(3_000, 9_000)
        self._wait("stream_synchronize", COMPUTE_STREAM, done_ns)
        self.host_ns += self.rng.randint(20_000, 60_000)
        duration_ns = self.host_ns - self.step_start_ns
        if self.job.has_markers:
            self.events.annotations.append(
                Annotation("host", f"step_{self.step}", self.main_thread, self.step_start_ns, duration_ns)
            )
        self.events.steps.append((self.step_start_ns, self.host_ns))
        self.host_ns += self.rng.randint(30_000, 120_000)

    def _save_and_evaluate(self) -> None:
        if self.effect.checkpoint_ns:
            with self.apart(CHECKPOINT):
                self.open_phase(waits=True)
                copy_ns = round(self.effect.checkpoint_ns * CHECKPOINT_COPY_RATIO)
                self._blocking_copy("dtoh", copy_ns)
                self.host_ns += self.effect.checkpoint_ns - copy_ns
                self.close_phase(CHECKPOINT)
        if self.effect.evaluation_ns:
            with self.apart(EVALUATION):
                self.open_phase(waits=True)
                started_ns, forward = self.compute_free_ns, self.job.workload.forward
                while self.compute_free_ns < started_ns + self.effect.evaluation_ns:
                    for shape in forward:
                        self.compute(shape)
                self.close_phase(EVALUATION)

    def launch(self, api_name: str, python_factor: float = 1) -> int:
        """Call the driver; returns the first instant at which the device can start the work."""
        duration_ns = round(self.rng.randint(4_000, 9_000) * self.effect.call)
        self.correlation += 1
        self.events.launches.append(Launch(api_name, self.thread, self.host_ns, duration_ns, self.correlation))
        ready_ns = self.host_ns + duration_ns // 2 + self.rng.randint(1_000, 3_000)
        self.host_ns += duration_ns + self._python_ns(python_factor)
        return ready_ns

    def _python_ns(self, python_factor: float) -> int:
        """Python until the next call. Slower code varies no more than fast one: its many parts even out."""
        usual_ns, noise = self.rng.randint(6_000, 30_000), self.job.noise
        usual_ns += round(MEAN_PYTHON_NS * (python_factor - 1))
        factor = self.effect.python
        if noise.host:
            factor *= 1 + self.rng.uniform(-noise.host, noise.host)
        return round(usual_ns * factor)

    def compute(self, shape: Shape) -> None:
        """A kernel, or as many as a fault splits it into; they last as long together."""
        self.piece_debt += self.effect.pieces
        pieces, factor = int(self.piece_debt), self.effect.compute
        self.piece_debt -= pieces
        if self.effect.matmul > 1 and shape.name in _MATMULS:
            shape, factor = shape._replace(name=names.SGEMM), factor * self.effect.matmul
        self._kernel(shape, factor / pieces)
        if pieces > 1:
            with self.apart("pieces"):
                for _ in range(pieces - 1):
                    self._kernel(shape, factor / pieces)
        self.read_debt += self.effect.reads
        while self.read_debt >= 1:
            self.read_debt -= 1
            with self.apart("reads"):
                self._read_value()

    def _kernel(self, shape: Shape, factor: float) -> None:
        ready_ns = self.launch(shape.api_name, self.job.workload.python_factor)
        start_ns = max(ready_ns, self.compute_free_ns + self.rng.randint(900, 1_800))
        usual_ns = shape.mean_ns * self.rng.uniform(*self.jitter)
        duration_ns = round(usual_ns * self.pace * factor)
        self.events.kernels.append(
            Kernel(shape.name, start_ns, duration_ns, self.device, COMPUTE_STREAM, self.correlation, *shape[2:])
        )
        self.compute_free_ns = start_ns + duration_ns

    def _read_value(self) -> None:
        """`.item()`: a copy of four bytes, and the host sleeps until it is there."""
        self.copy("dtoh", "pageable", 4)
        self._wait("stream_synchronize", COMPUTE_STREAM, max(self.host_ns, self.compute_free_ns) + WAKE_UP_NS)

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
        # The loss is read as soon as its reduction is launched.
        factor = 1 if collective is LOSS else self.job.workload.python_factor
        ready_ns = self.launch(collective.shape.api_name, factor)
        return max(ready_ns, self.compute_free_ns + 1_500, self.comm_free_ns + 1_000)

    def leave(self, collective: Collective, sequence: int, start_ns: int, end_ns: int) -> None:
        where = (self.device, COMM_STREAM, self.correlation, *collective.shape[2:])
        what = (collective.operation, collective.dtype, collective.message_bytes)
        group = (WORLD_GROUP, self.job.world_size, sequence)
        self.events.kernels.append(Kernel(collective.shape.name, start_ns, end_ns - start_ns, *where, *what, *group))
        self.comm_free_ns = end_ns
