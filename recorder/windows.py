"""Which stretches of a job are recorded, as values and as the text by which they are set."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_REMEDY = "give all, none, every 500 steps record 5, steps 100-120 or seconds 60-120"
_EVERY = re.compile(r"every (\d{1,12}) steps? record (\d{1,12})")
_STEPS = re.compile(r"steps (\d{1,12}) ?- ?(\d{1,12})")
_SECONDS = re.compile(r"seconds (\d{1,9}(?:\.\d{1,9})?) ?- ?(\d{1,9}(?:\.\d{1,9})?)")


@dataclass(frozen=True)
class EverySteps:
    """Of every `every_steps` steps, `record_steps` in a row. Raises ValueError."""

    every_steps: int
    record_steps: int

    def __post_init__(self) -> None:
        if not 1 <= self.record_steps <= self.every_steps:
            raise ValueError(f"record 1 to {self.every_steps} steps of {self.every_steps}")

    def __str__(self) -> str:
        return f"every {self.every_steps} steps record {self.record_steps}"


@dataclass(frozen=True)
class StepRange:
    """From one step to another, both recorded. Raises ValueError."""

    first_step: int
    last_step: int

    def __post_init__(self) -> None:
        if not 0 <= self.first_step <= self.last_step:
            raise ValueError("let the last step not come before the first")

    def __str__(self) -> str:
        return f"steps {self.first_step}-{self.last_step}"


@dataclass(frozen=True)
class SecondRange:
    """From one moment to another, in seconds since recording was asked for; the end is not in it. Raises ValueError."""

    start_seconds: float
    end_seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.start_seconds < self.end_seconds:
            raise ValueError("let the end come after the start")

    def __str__(self) -> str:
        return f"seconds {self.start_seconds:.15g}-{self.end_seconds:.15g}"


Windows = Literal["all", "none"] | EverySteps | StepRange | SecondRange
_FIXED: dict[str, Literal["all", "none"]] = {"all": "all", "none": "none"}


def parse_windows(value: object) -> Windows:
    """What a text like `steps 100-120` means; values of these types pass. Raises ValueError with the remedy."""
    if isinstance(value, (EverySteps, StepRange, SecondRange)):
        return value
    text = " ".join(value.lower().split()) if isinstance(value, str) else ""
    if text in _FIXED:
        return _FIXED[text]
    if match := _EVERY.fullmatch(text):
        return EverySteps(int(match[1]), int(match[2]))
    if match := _STEPS.fullmatch(text):
        return StepRange(int(match[1]), int(match[2]))
    if match := _SECONDS.fullmatch(text):
        return SecondRange(float(match[1]), float(match[2]))
    raise ValueError(_REMEDY)
