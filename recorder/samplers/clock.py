"""How the node's wall clock stands to its monotonic clock, and how far the wall clock may be off."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Callable

from tracelake.recorder.samplers import Reading
from tracelake.recorder.samplers.figures import Figures, Metrics

METRICS: Metrics = (
    ("node", "clock_step", "nanoseconds", "Wall clock minus what the anchor taken at the start foretells."),
    ("node", "clock_uncertainty", "nanoseconds", "How far off the pairing of the two clocks may be."),
    ("node", "clock_error_bound", "nanoseconds", "The kernel's bound on the wall clock's error, as NTP left it."),
)

PERIOD_NS = 10_000_000_000
_TIME_ERROR = 5
"""What adjtimex returns for a clock that nobody disciplines."""


class _Timex(ctypes.Structure):
    """The head of struct timex; the rest is room."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def pair(
    tries: int = 50,
    clock: Callable[[], int] = time.monotonic_ns,
    realtime: Callable[[], int] = time.time_ns,
) -> tuple[int, int, int]:
    """The two clocks at one instant: (monotonic, Unix time, uncertainty), all in nanoseconds.

    Of several brackets the narrowest counts: one that was preempted in the middle says little.
    """
    best: tuple[int, int, int] | None = None
    for _ in range(max(1, tries)):
        before_ns = clock()
        real_ns = realtime()
        after_ns = clock()
        if best is None or after_ns - before_ns < best[0]:
            best = (after_ns - before_ns, (before_ns + after_ns) // 2, real_ns)
    assert best is not None
    return best[1], best[2], (best[0] + 1) // 2


class Clock:
    """Samples the clocks every ten seconds at most. `anchor_offset_ns` is Unix minus monotonic time at the start."""

    def __init__(
        self,
        anchor_offset_ns: int,
        clock: Callable[[], int] = time.monotonic_ns,
        realtime: Callable[[], int] = time.time_ns,
        *,
        node_id: str | None = None,
    ) -> None:
        self._anchor_offset_ns = anchor_offset_ns
        self._clock = clock
        self._realtime = realtime
        self._node = node_id or platform.node()
        self._figures = Figures(METRICS)
        self._sampled_ns: int | None = None
        self._adjtimex = getattr(ctypes.CDLL(None, use_errno=True), "adjtimex", None)

    def sample(self) -> list[Reading]:
        """Readings of a new pairing; none where the last is younger than ten seconds."""
        now_ns = self._clock()
        if self._sampled_ns is not None and 0 <= now_ns - self._sampled_ns < PERIOD_NS:
            return []
        self._sampled_ns = now_ns
        monotonic_ns, real_ns, uncertainty_ns = pair(50, self._clock, self._realtime)
        self._figures.start(monotonic_ns)
        self._figures.add("node", self._node, "clock_step", real_ns - monotonic_ns - self._anchor_offset_ns)
        self._figures.add("node", self._node, "clock_uncertainty", uncertainty_ns)
        self._error_bound()
        return self._figures.finish()

    def close(self) -> None:
        """Nothing is held open."""

    def _error_bound(self) -> None:
        """Asking without modes needs no privilege, yet a sandbox may forbid it."""
        timex = _Timex()
        state = -1 if self._adjtimex is None else self._adjtimex(ctypes.byref(timex))
        if state < 0:
            self._figures.absent("node", self._node, ("clock_error_bound",), "no_permission")
        elif state == _TIME_ERROR:
            self._figures.absent("node", self._node, ("clock_error_bound",), "clock_unsynchronized")
        else:
            self._figures.add("node", self._node, "clock_error_bound", timex.maxerror * 1000)
