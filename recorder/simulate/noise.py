"""How much a faultless job varies by itself: kernel, step, rank and host jitter, heavy tails, lengths in buckets."""

from __future__ import annotations

import random
from dataclasses import dataclass

_TAIL_CHANCE = 0.06
_TAIL_SHAPE = 1.5


@dataclass(frozen=True)
class Noise:
    """Widths are relative; all of them together must stay below what a rule calls a fault."""

    name: str = "usual"
    kernel: float = 0.03
    """Each kernel lasts within this ratio of its usual time."""
    step: float = 0.0
    """Deviation of a rank's compute time from step to step."""
    rank: float = 0.0
    """Each device is this much faster or slower than the others, for the whole job."""
    host: float = 0.0
    """Python between two launches takes up to this much more or less."""
    tail: float = 0.0
    """At most so much longer are the few steps of the heavy tail."""
    modes: tuple[float, ...] = ()
    """Lengths of the batches, relative: each step takes one for all ranks, as bucketed sequences do."""


USUAL = Noise()
LEVELS = (
    Noise("quiet", kernel=0.01),
    USUAL,
    Noise("loud", kernel=0.05, step=0.01, rank=0.008, host=0.2),
    Noise("heavy_tailed", step=0.005, tail=0.12),
    Noise("bucketed", modes=(0.7, 0.85, 1.0, 1.2, 1.4)),
)


def pace(noise: Noise, job: str, rank: int, step: int) -> float:
    """How long the rank's compute kernels of a step last, relative to usual; `job` names the seed and the job."""
    ratio = 1.0
    if noise.modes:
        ratio *= random.Random(f"{job}/bucket/{step}").choice(noise.modes)
    if noise.rank:
        ratio *= 1 + random.Random(f"{job}/{rank}/pace").uniform(-noise.rank, noise.rank)
    if noise.step or noise.tail:
        rng = random.Random(f"{job}/{rank}/pace/{step}")
        ratio *= 1 + max(-3.0, min(3.0, rng.gauss(0, 1))) * noise.step
        if rng.random() < _TAIL_CHANCE:
            ratio *= 1 + min(noise.tail, noise.tail / 6 * rng.paretovariate(_TAIL_SHAPE))
    return ratio
