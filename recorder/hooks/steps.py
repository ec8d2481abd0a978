"""Steps that a framework shows, for scripts that mark none themselves: never two kinds of them at once."""

from __future__ import annotations

import re
from enum import IntEnum

from tracelake.recorder import annotation
from tracelake.schemas.steps import STEP_PATTERNS


class Source(IntEnum):
    """Who tells of steps; a greater one silences the lesser ones for good, since it knows better."""

    NOBODY = 0
    OPTIMIZER = 1
    TRAINER = 2
    SCRIPT = 3


class _OwnText(str):
    """Tells our own annotations from the script's."""

    __slots__ = ()


_is_step = re.compile("|".join(f"(?:{pattern})" for pattern in STEP_PATTERNS), re.IGNORECASE).fullmatch


class Steps:
    """One range at a time, `step_0`, `step_1`, …: counted as they come, or as the framework counts them."""

    def __init__(self) -> None:
        self.source = Source.NOBODY
        self._number = 0
        self._open: annotation.Range | None = None
        self._opened_by = Source.NOBODY

    def begin(self, source: Source, *, number: int | None = None) -> None:
        """The step that was open ends. Nothing happens where a better source is known."""
        if not self._may(source):
            return
        self.end(source)
        if number is not None:
            self._number = number
        self._opened_by = source
        text = f"step_{self._number}"
        self._open = annotation.annotation_begin(_OwnText(text))
        # The mark was for those who watch; the journal takes plain text only.
        self._open[0] = text
        self._number += 1

    def end(self, source: Source) -> None:
        """End what is open, also where it was a lesser source's."""
        if self._open is None or source < self._opened_by:
            return
        entry, self._open = self._open, None
        annotation.annotation_end(entry)

    def _may(self, source: Source) -> bool:
        if source < self.source:
            return False
        if source > self.source:
            self.source = source
            self.end(source)
        return True

    def on_text(self, text: str) -> bool:
        """See what the script annotates; True once it marks steps itself, so that nobody needs to look any more."""
        if type(text) is not _OwnText and isinstance(text, str) and _is_step(text):
            self._may(Source.SCRIPT)
        return self.source is Source.SCRIPT


STEPS = Steps()


def watch_script() -> None:
    """See the script's annotations until it marks a step. Whoever watched before keeps seeing everything."""
    inner = annotation._watch
    if getattr(inner, "is_step_watch", False) or STEPS.source is Source.SCRIPT:
        return

    def watch(text: str) -> None:
        if STEPS.on_text(text) and annotation._watch is watch:
            annotation.set_watch(inner)
        if inner is not None:
            inner(text)

    watch.is_step_watch = True  # type: ignore[attr-defined]
    annotation.set_watch(watch)
