"""Counters of the processor and the kernel, for the training process and for each core, by perf_event_open.

All values are differences since the last reading, the first since the sampler was made. A processor has fewer counters
than there may be events; the kernel then takes turns, and a value is scaled up from the time for which it was counted.
`counters_running_ratio` says how much of the time that was. Without privilege only user space is counted (`scope`).
"""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tracelake.recorder.samplers import Reading
from tracelake.recorder.samplers.figures import Figures, Metrics, read
from tracelake.recorder.samplers.perf_events import HARDWARE, SOFTWARE, Counter, Event, Opener, raw_event, reason

_COMMENTS = (
    ("task_clock", "seconds", "time on a core"),
    ("page_faults", "count", "page faults"),
    ("context_switches", "count", "context switches"),
    ("cpu_migrations", "count", "moves from one core to another"),
    ("cycles", "count", "cycles, at the clock of the moment"),
    ("instructions", "count", "instructions retired"),
    ("reference_cycles", "count", "cycles of a clock that does not change"),
    ("cache_references", "count", "accesses of the last level of cache"),
    ("cache_misses", "count", "misses of the last level of cache"),
    ("branch_misses", "count", "branches predicted wrongly"),
    ("dtlb_misses", "count", "misses of the TLB for data, at reads"),
    ("itlb_misses", "count", "misses of the TLB for instructions"),
)
_RUNNING = ("counters_running_ratio", "ratio", "Share of the time for which hardware events were counted.")
CORE_EVENTS = (SOFTWARE[2], *HARDWARE)
"""What is worth knowing of a core; its time and page faults are the processes'."""

METRICS: Metrics = (
    *(("process", metric, unit, f"Difference: {text}, of all threads.") for metric, unit, text in _COMMENTS),
    ("process", *_RUNNING),
    ("process", "uncounted_threads", "count", "Threads left out, because there were too many at the start."),
    *(
        ("core", metric, unit, f"Difference: {text}, of all that ran on the core.")
        for metric, unit, text in _COMMENTS
        if metric in {event.metric for event in CORE_EVENTS}
    ),
    ("core", *_RUNNING),
)

THREAD_LIMIT = 256
DESCRIPTOR_LIMIT = 4096
_SPARE_DESCRIPTORS = 256
"""Left to the rest of the process, whatever its limit."""


class Counters:
    """Samples the threads of `process_id` and, where that is permitted, every core.

    Threads that a counted thread starts are counted with it by the kernel, so the threads are listed only once: opening
    those found later would count them twice. Never raises; what cannot be counted is a reading with a reason, once.
    """

    def __init__(
        self,
        process_id: int | None,
        raw: Mapping[str, str | Mapping[str, Any]] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        *,
        cores: bool = True,
        descriptor_limit: int = DESCRIPTOR_LIMIT,
    ) -> None:
        """`raw` adds events by name, or puts others in the place of known ones: {"llc_stalls": "r01c2"}, or
        {"llc_stalls": {"type": 4, "config": 450}}."""
        self._clock = clock
        self._process_id = process_id
        self._is_over = False
        self._absent: list[tuple[str, str, str, str]] = []
        events = self._raw(raw or {}, cores)
        units = tuple((kind, metric, "count", "") for kind in ("process", "core") for metric in raw or {})
        self._figures = Figures(METRICS + units)
        self._free = _room(descriptor_limit)
        self._threads_opener, self._cores_opener = Opener(), Opener()
        self._threads: dict[Event, list[Counter]] = {}
        self._cores: dict[str, dict[Event, list[Counter]]] = {}
        self._uncounted = 0
        if process_id is not None:
            self._open_threads(process_id, _named(*SOFTWARE, *HARDWARE, *events))
        if cores:
            self._open_cores(_named(*CORE_EVENTS, *events))

    @property
    def scope(self) -> str:
        """Whose work the process's counters see: "user" space only, or "user+kernel"."""
        return "user" if self._threads_opener.is_user_only else "user+kernel"

    def sample(self) -> list[Reading]:
        """One reading per event, of the process and of each core."""
        self._figures.start(self._clock())
        for kind, entity, metric, why in self._absent:
            self._figures.absent(kind, entity, (metric,), why)
        self._absent = []
        if self._process_id is not None and self._threads:
            self._sample_process(str(self._process_id))
        for core, counters in self._cores.items():
            self._add("core", core, counters)
        return self._figures.finish()

    def close(self) -> None:
        """Close every counter."""
        for counters in (self._threads, *self._cores.values()):
            _close(counter for group in counters.values() for counter in group)
            counters.clear()

    def _sample_process(self, pid: str) -> None:
        if self._is_over:
            self._figures.absent("process", pid, tuple(event.metric for event in self._threads), "process_gone")
            _close(counter for group in self._threads.values() for counter in group)
            self._threads.clear()
            return
        self._add("process", pid, self._threads)
        if self._uncounted:
            self._figures.add("process", pid, "uncounted_threads", self._uncounted)
        # Said with the next tick: this one still brought what was counted up to the end.
        self._is_over = not os.access(f"/proc/{pid}", os.F_OK)

    def _add(self, kind: str, entity: str, counters: dict[Event, list[Counter]]) -> None:
        enabled_ns = running_ns = 0
        for event, group in counters.items():
            total, enabled, running = summed(group)
            if event.is_hardware:
                enabled_ns, running_ns = enabled_ns + enabled, running_ns + running
            if total is None:
                self._figures.null(kind, entity, event.metric, "not_scheduled")
            else:
                self._figures.add(kind, entity, event.metric, total / 1e9 if event == SOFTWARE[0] else total)
        if enabled_ns:
            self._figures.add(kind, entity, "counters_running_ratio", min(1.0, running_ns / enabled_ns))

    def _open_threads(self, process_id: int, events: Sequence[Event]) -> None:
        pid = str(process_id)
        try:
            threads = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
        except OSError:
            self._absent += [("process", pid, event.metric, "process_gone") for event in events]
            return
        limit = max(1, min(THREAD_LIMIT, self._free // len(events)))
        # The main thread, which starts most of the later ones, and the latest.
        others = [thread for thread in threads if thread != process_id][max(0, len(threads) - limit) :]
        chosen = [process_id, *others]
        self._uncounted = len(threads) - len(chosen)
        for event in events:
            group, why = self._open([(self._threads_opener.thread, thread) for thread in chosen], event)
            if why:
                self._absent.append(("process", pid, event.metric, why))
            else:
                self._threads[event] = group

    def _open_cores(self, events: Sequence[Event]) -> None:
        cores = _cores()
        for event in events:
            group, why = self._open([(self._cores_opener.core, core) for core in cores], event)
            if why:
                self._absent.append(("core", "all", event.metric, why))
            for core, counter in zip(cores, group, strict=False):
                self._cores.setdefault(str(core), {})[event] = [counter]

    def _open(
        self, places: list[tuple[Callable[[Event, int], Counter], int]], event: Event
    ) -> tuple[list[Counter], str | None]:
        """The event at every place or at none: part of a sum is no sum. A thread that ended by now is passed over."""
        group: list[Counter] = []
        try:
            if len(places) > self._free:
                raise OSError(errno.EMFILE, "over the sampler's own limit")
            for opening, number in places:
                try:
                    group.append(opening(event, number))
                except ProcessLookupError:
                    continue
            if not group:
                raise ProcessLookupError(errno.ESRCH, "every thread ended")
        except OSError as error:
            _close(group)
            return [], reason(error)
        self._free -= len(group)
        return group, None

    def _raw(self, raw: Mapping[str, str | Mapping[str, Any]], cores: bool) -> list[Event]:
        events = []
        for metric, code in raw.items():
            try:
                events.append(raw_event(metric, code))
            except (ValueError, TypeError, AttributeError):
                if self._process_id is not None:
                    self._absent.append(("process", str(self._process_id), metric, "invalid_setting"))
                if cores:
                    self._absent.append(("core", "all", metric, "invalid_setting"))
        return events


def _named(*events: Event) -> list[Event]:
    return list({event.metric: event for event in events}.values())


def summed(group: Iterable[Counter]) -> tuple[float | None, int, int]:
    """What the counters of one event counted since the last time, scaled up where they took turns with others, and the
    nanoseconds enabled and counting. None where one had no turn at all: its share is unknown."""
    total: float | None = 0.0
    enabled_ns = running_ns = 0
    for counter in group:
        counted, enabled, running = counter.advance()
        enabled_ns, running_ns = enabled_ns + enabled, running_ns + running
        if enabled and not running:
            total = None
        elif running and total is not None:
            total += counted * enabled / running
    return total, enabled_ns, running_ns


def _close(counters: Iterable[Counter]) -> None:
    for counter in counters:
        counter.close()


def _room(limit: int) -> int:
    """How many descriptors may be used. The soft limit protects programs that select(), which the sidecar does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limit + _SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return limit if soft == resource.RLIM_INFINITY else max(0, min(limit, soft - _SPARE_DESCRIPTORS))


def _cores() -> list[int]:
    """The cores that are online, from a list such as 0-3,8."""
    try:
        spans = [span.split("-") for span in read("/sys/devices/system/cpu/online").decode().strip().split(",")]
        return [core for span in spans for core in range(int(span[0]), int(span[-1]) + 1)]
    except (OSError, ValueError):
        return list(range(os.cpu_count() or 1))
