"""One process and the processes below it, from /proc."""

from __future__ import annotations

import os

from tracelake.recorder.samplers.figures import Figures, Metrics, read, reason

METRICS: Metrics = (
    ("process", "cpu_time", "seconds", "Difference: CPU time of all threads, user and system, to a hundredth."),
    ("process", "memory_rss", "bytes", "Resident memory."),
    ("process", "threads", "count", "Threads."),
    ("process", "read_bytes", "bytes", "Difference: read from storage; what the page cache served is not in it."),
    ("process", "write_bytes", "bytes", "Difference: written towards storage."),
    ("process", "voluntary_context_switches", "count", "Difference: waits of the main thread."),
    ("process", "involuntary_context_switches", "count", "Difference: preemptions of the main thread."),
    ("process", "children", "count", "Living descendants, data loader workers for one, without the recorder's own."),
    ("process", "children_cpu_time", "seconds", "Difference: CPU time of the living descendants."),
    ("process", "children_memory_rss", "bytes", "Resident memory of the descendants; shared pages count in each."),
)

SCAN_NS = 5_000_000_000
CHILDREN_LIMIT = 256
"""Of more descendants only the latest are read: a tick must stay cheap."""
_CPU, _IO, _SWITCHES = ("cpu_time", "memory_rss", "threads"), ("read_bytes", "write_bytes"), (
    "voluntary_context_switches",
    "involuntary_context_switches",
)  # fmt: skip
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class _Stat:
    """Fields of /proc/PID/stat; the name in parentheses may hold anything."""

    def __init__(self, text: bytes) -> None:
        fields = text[text.rindex(b")") + 2 :].split(maxsplit=22)
        self.is_over = fields[0] in b"ZX"
        self.parent = int(fields[1])
        self.cpu_seconds = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
        self.threads = int(fields[17])
        self.start = int(fields[19])
        self.rss_bytes = int(fields[21]) * _PAGE_BYTES


class ProcessTree:
    """Reads the process `process_id` and its descendants, found again every five seconds."""

    def __init__(self, process_id: int, proc: str) -> None:
        self._process_id = process_id
        self._proc = proc
        self._start: int | None = None
        self._is_gone = False
        self._parents: dict[int, int] = {}
        self._children: list[int] = []
        self._cpu_seconds: dict[int, float] = {}
        self._children_seconds = 0.0
        self._scanned_ns: int | None = None

    def sample(self, figures: Figures, at_ns: int) -> None:
        """Readings of the process; once it ended, one reason and then nothing more."""
        if self._is_gone:
            return
        pid = str(self._process_id)
        stat = self._stat(self._process_id)
        if stat is None or stat.is_over or stat.start != (self._start or stat.start):
            self._is_gone = True
            figures.absent("process", pid, tuple(row[1] for row in METRICS), "process_gone")
            return
        self._start = stat.start
        figures.difference("process", pid, "cpu_time", stat.cpu_seconds)
        figures.add("process", pid, "memory_rss", stat.rss_bytes)
        figures.add("process", pid, "threads", stat.threads)
        self._pairs(figures, "io", _IO, (b"read_bytes", b"write_bytes"))
        self._pairs(figures, "status", _SWITCHES, (b"voluntary_ctxt_switches", b"nonvoluntary_ctxt_switches"))
        self._sample_children(figures, at_ns)

    def _pairs(self, figures: Figures, file: str, metrics: tuple[str, ...], names: tuple[bytes, ...]) -> None:
        """Counters of a file of lines "name: number"."""
        pid = str(self._process_id)
        try:
            text = read(f"{self._proc}/{pid}/{file}")
            found = dict(line.split(b":", 1) for line in text.splitlines() if b":" in line)
            for metric, name in zip(metrics, names, strict=True):
                figures.difference("process", pid, metric, int(found[name]))
        except (OSError, KeyError, ValueError) as error:
            figures.absent("process", pid, metrics, reason(error))

    def _sample_children(self, figures: Figures, at_ns: int) -> None:
        if self._scanned_ns is None or not 0 <= at_ns - self._scanned_ns < SCAN_NS:
            self._scan()
            self._scanned_ns = at_ns
        alive, rss_bytes = 0, 0
        for child in self._children:
            stat = self._stat(child)
            if stat is None or stat.is_over:
                continue
            alive += 1
            rss_bytes += stat.rss_bytes
            before = self._cpu_seconds.get(child, stat.cpu_seconds)
            self._cpu_seconds[child] = stat.cpu_seconds
            # A number that was used again belongs to another process, and its time is its own.
            self._children_seconds += stat.cpu_seconds - before if stat.cpu_seconds >= before else 0.0
        pid = str(self._process_id)
        figures.add("process", pid, "children", alive)
        figures.add("process", pid, "children_memory_rss", rss_bytes)
        figures.difference("process", pid, "children_cpu_time", self._children_seconds)

    def _scan(self) -> None:
        """Find the descendants. The parent of a process is read once: on a big host most are not ours."""
        is_first = self._scanned_ns is None
        known, self._parents = self._parents, {}
        with os.scandir(self._proc) as entries:
            numbers = sorted(int(entry.name) for entry in entries if entry.name.isdigit())
        below: dict[int, list[int]] = {}
        for number in numbers:
            parent = known.get(number)
            if parent is None:
                stat = self._stat(number)
                parent = stat.parent if stat else 0
            self._parents[number] = parent
            below.setdefault(parent, []).append(number)
        children = self._descend(below)
        for child in children:
            if child not in known and not is_first:
                self._cpu_seconds.setdefault(child, 0.0)  # it began since the last scan: all of its time counts
        self._children = children
        self._cpu_seconds = {child: self._cpu_seconds[child] for child in children if child in self._cpu_seconds}

    def _descend(self, below: dict[int, list[int]]) -> list[int]:
        own = os.getpid()
        found, waiting = [], [self._process_id]
        while waiting:
            for child in below.get(waiting.pop(), ()):
                if child != own:
                    found.append(child)
                    waiting.append(child)
        return sorted(found)[-CHILDREN_LIMIT:]

    def _stat(self, process_id: int) -> _Stat | None:
        try:
            return _Stat(read(f"{self._proc}/{process_id}/stat"))
        except (OSError, ValueError, IndexError):
            return None
