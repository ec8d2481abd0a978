"""Three nights of a small fleet, and what is true of them.

Night 1: five alike runs of a family, two jobs that one machine slows down, a job that still runs, one that failed, one
with a window that comes late and one with a segment that is cut off. Night 2: the late window, the second attempt of
the failed job, a third job of the slow machine, a run of the family that is slower. Night 3: the end of the running
job, and the next run of the family, as slow as the one before.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tracelake.recorder.simulate import Fault, Job, JobTruth, simulate_job
from tracelake.recorder.simulate.fleet import node
from tracelake.recorder.simulate.light import GPU_BOUND
from tracelake.schemas.manifest import raw_root

DAYS = tuple(dt.date(2026, 11, 10 + number) for number in range(3))
SEED = 7
STEPS = 24
SLOWER = 0.3
_BERT, _LLM, _VISION = GPU_BOUND[:3]
_SLOW_MACHINE = 11

FAMILY = Job(
    "nightly-bert-1", _BERT.workload, _BERT.hardware, nodes=1, devices_per_node=2, steps=STEPS, start_second=3_600,
    project="search", user="a.ito", family="nightly-bert",
)  # fmt: skip
ON_SLOW_MACHINE = Job(
    "llm-a", _LLM.workload, _LLM.hardware, nodes=3, devices_per_node=1, steps=STEPS, start_second=7_200,
    first_node=_SLOW_MACHINE - 1, project="foundation", user="b.novak", family="llm",
    faults=(Fault("slow_node", 0.4, node=1),),
)  # fmt: skip
_OTHER = Job(
    "live", _VISION.workload, _VISION.hardware, nodes=1, devices_per_node=2, steps=STEPS, start_second=10_800,
    project="vision", user="c.diaz",
)  # fmt: skip
LIVE = replace(_OTHER, windows=((0, STEPS // 2), (STEPS // 2, STEPS)))
RESUMED = replace(_OTHER, job_id="resumed", start_second=14_400, faults=(Fault("resumed", 4, first=14),))
LATE = replace(_OTHER, job_id="late", start_second=18_000)
BROKEN = replace(_OTHER, job_id="broken", start_second=21_600)
SLOW_NODE_ID = node(SEED, ON_SLOW_MACHINE, 1).node_id


class Nights:
    """Delivers what each night brings to a lake's raw data."""

    def __init__(self, lake: Path, scratch: Path) -> None:
        self.lake, self.scratch = lake, scratch
        self.truth: dict[str, JobTruth] = {}

    def one(self, tags: dict[str, str]) -> None:
        """`tags` are those of the family's first run."""
        for number in range(5):
            self._all(self._of_family(number, tags if number == 0 else {}), 0)
        for number, job_id in enumerate(("llm-a", "llm-b")):
            self._all(replace(ON_SLOW_MACHINE, job_id=job_id, start_second=7_200 + 600 * number), 0)
        self._some(LIVE, 0, lambda number: number % 2 == 0)
        self._some(RESUMED, 0, lambda number: number < 2)
        self._some(LATE, 0, lambda number: number == 0)
        self._all(BROKEN, 0)
        self._cut_off("broken")

    def two(self, tags: dict[str, str]) -> None:
        """`tags` are those of the slower run."""
        self._some(LATE, 0, lambda number: number == 1)
        self._some(RESUMED, 0, lambda number: number >= 2)
        self._all(replace(ON_SLOW_MACHINE, job_id="llm-c"), 1)
        self._all(self._slower(5, tags), 1)

    def three(self) -> None:
        self._some(LIVE, 0, lambda number: number % 2 == 1)
        self._all(self._slower(6, {}), 2)

    def _of_family(self, number: int, tags: dict[str, str]) -> Job:
        return replace(FAMILY, job_id=f"nightly-bert-{number + 1}", start_second=3_600 + 300 * number, tags=tags)

    def _slower(self, number: int, tags: dict[str, str]) -> Job:
        return replace(self._of_family(number, tags), faults=(Fault("slow_rank", SLOWER),))

    def _all(self, job: Job, day: int) -> None:
        self._some(job, day, lambda number: True)

    def _some(self, job: Job, day: int, is_here: Callable[[int], bool]) -> None:
        """The windows of a job, by number, that have arrived by now."""
        if job.job_id not in self.truth:
            self.truth[job.job_id] = simulate_job(self.scratch, job, seed=SEED, day=DAYS[day])
        chosen = {w.source_id for number, w in enumerate(self.truth[job.job_id].devices) if is_here(number)}
        for file in raw_root(self.scratch).rglob(f"job={job.job_id}/*"):
            if any(file.name.startswith(source_id) for source_id in chosen):
                place = raw_root(self.lake) / file.relative_to(raw_root(self.scratch))
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, place)

    def _cut_off(self, job_id: str) -> None:
        """The first file of kernels loses its end, as when a disk is full."""
        file = min(raw_root(self.lake).glob(f"kernel/day=*/job={job_id}/*.parquet"))
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
