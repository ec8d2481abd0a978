"""When windows open and close: by the script, by the settings, or by a word from outside."""

from __future__ import annotations

import re
import time

from tracelake.recorder.windows import EverySteps, SecondRange, StepRange, Windows
from tracelake.schemas.steps import STEP_PATTERNS


class Schedule:
    """Answers True (a window should be open), False (none should), or None (leave it as it is)."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._is_step = re.compile("|".join(f"(?:{pattern})" for pattern in STEP_PATTERNS), re.IGNORECASE).fullmatch
        self._steps = 0
        self._asked_at: float | None = None
        self._until: float | None = None

    @property
    def follows_steps(self) -> bool:
        return isinstance(self._windows, (EverySteps, StepRange))

    def ask(self) -> bool:
        """The script asks to record; whether a window opens at once. Seconds of a schedule count from here."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
        return self._windows == "all"

    def dismiss(self) -> None:
        self._asked_at = None

    def at(self, text: str) -> bool | None:
        """An annotation begins. Steps are counted as they come: their own numbers may start again."""
        if self._asked_at is None or not self._is_step(text):
            return None
        step = self._steps
        self._steps += 1
        if isinstance(self._windows, EverySteps):
            return step % self._windows.every_steps < self._windows.record_steps
        if isinstance(self._windows, StepRange):
            return self._windows.first_step <= step <= self._windows.last_step
        return None

    def now(self) -> bool | None:
        """What the clock says; an edge is told once, so that a word from outside is not undone."""
        at = time.monotonic()
        if self._until is not None and at >= self._until:
            self._until = None
            return False
        if not isinstance(self._windows, SecondRange) or self._asked_at is None:
            return None
        since = at - self._asked_at
        if since >= self._windows.end_seconds:
            self._asked_at = None
            return False
        return True if since >= self._windows.start_seconds else None

    def told(self, command: str) -> bool | None:
        """Obey `start`, `start SECONDS` or `stop`."""
        words = command.split()
        if words[:1] == ["start"]:
            self._until = time.monotonic() + float(words[1]) if len(words) > 1 else None
            return True
        return False if words == ["stop"] else None
