"""Sets of many small jobs for measuring what finds faults: some with known faults of every kind and size, some clean.

Everything follows from the seed. Tune on the jobs of some seeds and measure on those of others.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tracelake.recorder.simulate.faults import Fault
from tracelake.recorder.simulate.fleet import Job
from tracelake.recorder.simulate.light import BRIEF, EAGER, GPU_BOUND, Model
from tracelake.recorder.simulate.noise import LEVELS, Noise
from tracelake.recorder.simulate.sizing import sized

SIZES = (0.05, 0.10, 0.15, 0.25, 0.50)
"""Of what acts in every step, relative to the usual step."""
SINGLE_SIZES = (0.2, 0.3, 0.5, 1.0, 8.0)
"""Of what strikes in one step."""
GRIDS = ((1, 2), (1, 4), (2, 2), (1, 8), (2, 4), (4, 2), (4, 4))
"""Nodes and devices of each."""
STEPS = (36, 40, 48, 48, 60, 72)
EVERY = 8
NODES = 40
"""Machines of each type that the jobs share."""
_HOST = ("slow_host", "slow_launches")
_BRIEF_KINDS = ("excess_sync", "launch_bound")
_ONE_RANK = ("slow_rank", "throttled", "late_rank", "data_loading", "copy_bound", "slow_node", *_HOST)
_EVERYWHERE = ("data_loading", "copy_bound", "slow_link", "sync_stall", "python_pause", "fp32_matmul", *_BRIEF_KINDS)
_SINGLE_RANK = ("slow_step", "python_pause", "copy_bound", "sync_stall", "late_rank", "data_stall")
_SINGLE_EVERYWHERE = ("slow_link", "data_stall")
_BENIGN = {
    "checkpoint": (0.5, 2.0, 8.0),
    "evaluation": (0.5, 2.0, 8.0),
    "warm_up": (0.5, 2.0),
    "drift": (0.1, 0.2, 0.3),
    "late_clock": (1_000_000, 5_000_000, 50_000_000),
    "clock_drift": (-30, 20, 100),
}
_STATES = {"memory_leak": (0.05, 0.1, 0.2), "killed_process": (0, 0), "resumed": (4, 9)}
_TOGETHER = (
    ("slow_rank", "data_stall"),
    ("slow_rank", "slow_step"),
    ("slow_node", "checkpoint"),
    ("throttled", "data_loading"),
    ("late_clock", "slow_rank"),
    ("drift", "slow_step"),
    ("slow_link", "slow_rank"),
    ("slow_rank", "slow_rank"),
    ("memory_leak", "slow_step"),
    ("evaluation", "data_stall"),
)
_ABSOLUTE = frozenset(("drift", "late_clock", "clock_drift", "memory_leak", "killed_process", "resumed"))
"""Sizes that are no part of a step."""
_ONE_STEP = frozenset(("slow_step", "data_stall"))
"""Kinds that strike in one step when they come with others."""
_TIMES = {**dict.fromkeys(_ONE_STEP, 4), "late_clock": 20_000_000}
"""With others, how much larger than they: what strikes once must stand out, a clock is off by nanoseconds."""


@dataclass(frozen=True)
class Cell:
    """One job of the grid: the kinds of its faults, the size of each, and where and when the first one acts."""

    kinds: tuple[str, ...]
    sizes: tuple[float, ...]
    place: str = "everywhere"
    """everywhere, rank or node."""
    when: str = "always"
    """always, once, often, or later: from a quarter of the job on."""
    trait: str = ""
    """unmarked: no annotation names the steps; windows: recording pauses."""


def cells() -> tuple[Cell, ...]:
    """The grid. Every kind comes in every size that suits it, alone, and some together."""
    found = [Cell((kind,), (size,), "rank") for kind in _ONE_RANK for size in SIZES]
    found += [Cell((kind,), (size,), when="later") for kind in _EVERYWHERE for size in SIZES[2:4]]
    found += [Cell((kind,), (size,)) for kind in _EVERYWHERE for size in SIZES]
    found += [Cell((kind,), (size,), "rank", "once") for kind in _SINGLE_RANK for size in SINGLE_SIZES]
    found += [Cell((kind,), (size,), when="once") for kind in _SINGLE_EVERYWHERE for size in SINGLE_SIZES]
    found += [Cell(("data_stall",), (size,), when="often") for size in SINGLE_SIZES[1:]]
    found += [Cell(("slow_step",), (size,), "rank", "often") for size in SINGLE_SIZES[1:]]
    found += [Cell((kind,), (size,)) for kind, sizes in _BENIGN.items() for size in sizes]
    found += [Cell((kind,), (size,)) for kind, sizes in _STATES.items() for size in sizes]
    found += [
        Cell(kinds, tuple(size * _TIMES.get(kind, 1) for kind in kinds))
        for kinds in _TOGETHER
        for size in (0.15, 0.25, 0.5)
    ]
    found += [Cell(("slow_rank",), (0.25,), "rank", trait=trait) for trait in ("unmarked", "windows")]
    found += [Cell(("slow_step",), (1.0,), "rank", "once", trait) for trait in ("unmarked", "windows")]
    found += [Cell((), ())] * 20
    return tuple(found)


def labelled(seed: int, count: int = 240) -> list[Job]:
    """Jobs of the grid in an order by the seed: with at least as many as `cells()`, each of its cells."""
    return list(itertools.islice(_jobs(f"labelled-{seed}", cells(), LEVELS[:4], seed), count))


def clean(seed: int, count: int = 300) -> list[Job]:
    """Jobs in which nothing must be found, at all noise levels; a third holds what belongs to training."""
    benign = [Cell((kind,), (size,)) for kind, sizes in _BENIGN.items() for size in sizes]
    plain = [Cell((), ())] * (2 * len(benign))
    return list(itertools.islice(_jobs(f"clean-{seed}", [*benign, *plain], LEVELS, seed), count))


def _jobs(name: str, grid: Sequence[Cell], levels: Sequence[Noise], seed: int) -> Iterator[Job]:
    rng = random.Random(name)
    for number in itertools.count():
        if number % len(grid) == 0:
            order = rng.sample(grid, len(grid))
        cell = order[number % len(grid)]
        yield _job(
            f"{name}-{number:04d}", cell, levels[number % len(levels)], number, random.Random(f"{name}/{number}")
        )


def _job(job_id: str, cell: Cell, noise: Noise, number: int, rng: random.Random) -> Job:
    model, steps = _model(cell, rng), rng.choice(STEPS)
    nodes, devices = rng.choice([grid for grid in GRIDS if grid[0] > 1 or not _needs_nodes(cell)])
    job = Job(
        job_id,
        model.workload,
        model.hardware,
        nodes,
        devices,
        steps,
        start_second=number * 149 % 80_000,
        first_node=rng.randrange(NODES),
        has_autograd_thread=rng.random() < 0.5,
        project=rng.choice(("foundation", "search", "vision", "speech")),
        user=rng.choice(("a.ito", "b.novak", "c.diaz")),
        family=model.name,
        noise=noise,
        windows=((0, steps // 2), (steps * 2 // 3, steps)) if cell.trait == "windows" else (),
        has_markers=cell.trait != "unmarked",
        reads_reasons=True,
        also_true=model.also_true,
    )
    return replace(job, faults=tuple(_faults(job, cell, rng)))


def _needs_nodes(cell: Cell) -> bool:
    return any(kind in ("slow_node", "late_clock", "clock_drift") for kind in cell.kinds)


def _model(cell: Cell, rng: random.Random) -> Model:
    if any(kind in _HOST for kind in cell.kinds):
        return EAGER
    if any(kind in _BRIEF_KINDS for kind in cell.kinds):
        return BRIEF
    if "fp32_matmul" in cell.kinds:
        return rng.choice(GPU_BOUND[:-1])
    return rng.choice((*GPU_BOUND, BRIEF) if cell.kinds else (*GPU_BOUND, BRIEF, EAGER))


def _faults(job: Job, cell: Cell, rng: random.Random) -> Iterator[Fault]:
    ranks = rng.sample(range(job.world_size), 2)
    for kind, size, rank in zip(cell.kinds, cell.sizes, ranks, strict=False):
        fault = _placed(job, Fault(kind), cell, rank, rng)
        if kind in _ABSOLUTE:
            yield replace(fault, size=size)
        else:
            yield sized(job.workload, fault, size)


def _placed(job: Job, fault: Fault, cell: Cell, rank: int, rng: random.Random) -> Fault:
    kind, alone = fault.kind, len(cell.kinds) == 1
    if kind in ("slow_node", "late_clock", "clock_drift"):
        fault = replace(fault, node=job.node_of(rank))
    elif kind in ("slow_rank", "slow_step", "throttled", "memory_leak", "killed_process") or cell.place == "rank":
        fault = replace(fault, rank=rank)
    when = cell.when if alone else "once" if kind in _ONE_STEP else "always"
    late = rng.randrange(job.steps // 3, job.steps - 3)
    if cell.trait == "windows":
        late = rng.choice((late % (job.steps // 6) + job.steps // 4, job.steps - 4))
    if kind in ("checkpoint", "evaluation"):
        return replace(fault, first=EVERY - 1, every=EVERY)
    if kind == "warm_up":
        return replace(fault, count=rng.randint(2, 6))
    if when == "once" or kind in ("killed_process", "resumed"):
        return replace(fault, first=late, count=1)
    if when == "often":
        return replace(fault, first=EVERY // 2, every=EVERY)
    return replace(fault, first=job.steps // 4) if when == "later" else fault
