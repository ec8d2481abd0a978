"""Named ranges, recorded at the cost of two clock readings and one append.

Each thread appends to a list of its own; the flush thread takes the finished ranges out. Appending to a list and
slicing it are atomic in every Python, with or without the global lock, so no lock is taken on the training path.
A range is a list [text, start_ns, end_ns, outer, number]: end_ns is 0 while it is open; the clock is CLOCK_MONOTONIC.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from types import TracebackType
from typing import Any, TypeVar

Range = list[Any]
F = TypeVar("F", bound=Callable[..., Any])
_TEXT, _START, _END, _OUTER = range(4)


class _Token:
    """Lives as long as its thread's local storage."""

    __slots__ = ("__weakref__",)


class ThreadLog:
    """Ranges of one thread, in order of their start."""

    def __init__(self) -> None:
        self.ident = threading.get_ident()
        self.native_id = threading.get_native_id()
        self.name = threading.current_thread().name
        self.ranges: list[Range] = []
        self.open: dict[int, Range] = {}
        token = _Token()
        _local.token = token
        self._token = weakref.ref(token)

    @property
    def is_alive(self) -> bool:
        return self._token() is not None


class _Local(threading.local):
    # (append to the thread's log, ranges that annotation_begin opened): one look-up gives both.
    both: tuple[Callable[[Range], None], list[Range]]
    token: _Token


_local = _Local()
_logs: list[ThreadLog] = []
# Read on every annotation. `watch` sees each text before it is recorded, where windows follow the steps.
_is_on = False
_watch: Callable[[str], None] | None = None


def _register() -> tuple[Callable[[Range], None], list[Range]]:
    log = ThreadLog()
    _local.both = log.ranges.append, []
    _logs.append(log)
    return _local.both


class annotate:
    """`with annotate("forward"):` or `@annotate("forward")`: name what the program does here.

    A number at the end of the name (`step_12`) is its index. Nothing happens while no window is open. One object may
    be entered again, also inside itself; threads and tasks that run at once each make their own.
    """

    __slots__ = ("_range", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._range: Range | None = None

    def __enter__(self) -> annotate:
        if _watch is not None:
            _watch(self.text)
        self._range = entry = [self.text, perf_counter_ns(), 0, self._range]
        if _is_on:
            try:
                _local.both[0](entry)
            except AttributeError:
                _register()[0](entry)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end_ns = perf_counter_ns()
        entry = self._range
        if entry is not None:
            entry[_END] = end_ns
            self._range = entry[_OUTER]

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def annotated(*arguments: Any, **named: Any) -> Any:
            with annotate(self.text):
                return function(*arguments, **named)

        return annotated  # type: ignore[return-value]


def annotation_begin(text: str) -> Range:
    """Open a range; give what it returns to `annotation_end`, from any thread."""
    if _watch is not None:
        _watch(text)
    try:
        append, begun = _local.both
    except AttributeError:
        append, begun = _register()
    entry: Range = [text, perf_counter_ns(), 0, None]
    begun.append(entry)
    if _is_on:
        append(entry)
    return entry


def annotation_end(which: Range | str | None = None) -> None:
    """Close the range that `annotation_begin` returned, the thread's latest open one of that name, or its latest."""
    end_ns = perf_counter_ns()
    try:
        begun = _local.both[1]
    except AttributeError:
        begun = []
    if begun and (which is None or begun[-1] is which):
        begun.pop()[_END] = end_ns
    elif isinstance(which, list):
        which[_END] = end_ns
        if begun and which in begun:
            begun.remove(which)
    elif begun:
        for place in range(len(begun) - 1, -1, -1):
            if begun[place][_TEXT] == which:
                begun.pop(place)[_END] = end_ns
                return


def set_recording(is_on: bool) -> None:
    global _is_on
    _is_on = is_on


def set_watch(watch: Callable[[str], None] | None) -> None:
    global _watch
    _watch = watch


def forget() -> None:
    """In a forked child: nothing of the parent's is the child's."""
    global _is_on, _watch, _local
    _is_on, _watch, _local = False, None, _Local()
    _logs.clear()


class Collector:
    """Takes ranges out of the logs, in the flush thread."""

    def __init__(self, most_per_thread: int) -> None:
        self._most = most_per_thread
        self._number = 0
        self.dropped_count = 0

    def take(self) -> list[tuple[int, int, str, list[tuple[int, str, int, int]]]]:
        """(thread ident, native thread id, thread name, [(number, text, start_ns, end_ns)]) of each thread.

        An open range comes once with end 0, and again under its number when it has ended.
        """
        taken = []
        for log in list(_logs):
            was_alive = log.is_alive
            rows = self._closed(log) + self._new(log)
            if rows:
                taken.append((log.ident, log.native_id, log.name, rows))
            if not was_alive and not log.ranges:
                _logs.remove(log)
        return taken

    def _closed(self, log: ThreadLog) -> list[tuple[int, str, int, int]]:
        done = [(number, entry) for number, entry in log.open.items() if entry[_END]]
        for number, _ in done:
            del log.open[number]
        return [(number, str(entry[_TEXT]), entry[_START], entry[_END]) for number, entry in done]

    def _new(self, log: ThreadLog) -> list[tuple[int, str, int, int]]:
        count = len(log.ranges)
        entries = log.ranges[:count]
        del log.ranges[:count]
        if count > self._most:
            self.dropped_count += count - self._most
            entries = entries[-self._most :]
        rows = []
        for entry in entries:
            self._number += 1
            end_ns = entry[_END]
            if not end_ns:
                log.open[self._number] = entry
            rows.append((self._number, str(entry[_TEXT]), entry[_START], end_ns))
        return rows
