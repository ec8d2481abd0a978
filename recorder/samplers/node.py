"""Readings of the machine and of the training process, from /proc and /sys.

What a container hides, or an older kernel lacks, is said once and then left out. "Difference" in the table means: since
the last reading, and so not on the first. The others are values of the instant.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable

from tracelake.recorder.samplers import Reading, process
from tracelake.recorder.samplers.figures import Figures, Metrics, read, reason

METRICS: Metrics = (
    ("core", "cpu_util_ratio", "ratio", "Difference: share of the time not idle and not waiting for I/O."),
    ("node", "cpu_iowait_ratio", "ratio", "Difference: share of all cores' time idle with I/O outstanding."),
    ("node", "memory_used", "bytes", "Memory that is not available to new work."),
    ("node", "memory_total", "bytes", "Memory of the machine."),
    ("node", "memory_available", "bytes", "Memory that new work could have without swapping."),
    ("node", "load_average_1m", "count", "Runnable or blocked tasks, over the last minute."),
    ("node", "pressure_cpu_some", "seconds", "Difference: time in which some task waited for a core."),
    ("node", "pressure_io_some", "seconds", "Difference: time in which some task waited for I/O."),
    ("node", "pressure_io_full", "seconds", "Difference: time in which all non-idle tasks waited for I/O."),
    ("node", "pressure_memory_some", "seconds", "Difference: time in which some task waited for memory."),
    ("node", "cpu_throttled", "seconds", "Difference: time in which the control group had used up its CPU quota."),
    ("disk", "read_bytes", "bytes", "Difference: read from the device."),
    ("disk", "write_bytes", "bytes", "Difference: written to the device."),
    ("disk", "io_time", "seconds", "Difference: time with a request under way."),
    ("nic", "received_bytes", "bytes", "Difference: received."),
    ("nic", "sent_bytes", "bytes", "Difference: sent."),
    *process.METRICS,
)

SECTOR_BYTES = 512
_PRESSURES = (
    ("cpu", (b"some",), ("pressure_cpu_some",)),
    ("io", (b"some", b"full"), ("pressure_io_some", "pressure_io_full")),
    ("memory", (b"some",), ("pressure_memory_some",)),
)
_VIRTUAL_DISKS = ("loop", "ram", "zram")
_VIRTUAL_NICS = ("lo", "veth", "cali", "lxc", "ifb", "dummy")
"""Ends of containers' links, of which a host may have hundreds, and what carries no traffic of its own."""


class Node:
    """Samples the machine and, where given, the process `process_id` with its descendants."""

    def __init__(
        self,
        process_id: int | None,
        clock: Callable[[], int] = time.monotonic_ns,
        *,
        node_id: str | None = None,
        machine: bool = True,
        root: str = "/",
    ) -> None:
        """`node_id` is the entity of the machine's readings (default: its name). Without `machine` only the process is
        read: one rank of a node is enough to read the rest. `root` is where proc and sys are."""
        self._node = node_id or platform.node()
        self._clock = clock
        self._machine = machine
        self._root = root.rstrip("/")
        self._figures = Figures(METRICS)
        self._ticks: dict[bytes, tuple[int, int, int]] = {}
        self._disks: dict[bytes, bool] = {}
        self._cpu_stat = self._find_cpu_stat(process_id)
        self._tree = None if process_id is None else process.ProcessTree(process_id, f"{self._root}/proc")
        self._parts: tuple[tuple[Callable[[], None], str, tuple[str, ...]], ...] = (
            (self._cores, "core", ("cpu_util_ratio",)),
            (self._memory, "node", ("memory_used", "memory_total", "memory_available")),
            (self._load, "node", ("load_average_1m",)),
            *((self._pressure(*each), "node", each[2]) for each in _PRESSURES),
            (self._throttling, "node", ("cpu_throttled",)),
            (self._disk_traffic, "disk", ("read_bytes", "write_bytes", "io_time")),
            (self._nic_traffic, "nic", ("received_bytes", "sent_bytes")),
        )

    def sample(self) -> list[Reading]:
        """Readings of this instant; never raises."""
        at_ns = self._clock()
        self._figures.start(at_ns)
        for part, kind, metrics in self._parts if self._machine else ():
            try:
                part()
            except (OSError, ValueError, IndexError, KeyError) as error:
                self._figures.absent(kind, self._node if kind == "node" else "all", metrics, reason(error))
        if self._tree is not None:
            self._tree.sample(self._figures, at_ns)
        return self._figures.finish()

    def close(self) -> None:
        """Nothing is held open."""

    def _cores(self) -> None:
        for line in read(f"{self._root}/proc/stat").splitlines():
            if not line.startswith(b"cpu"):
                break
            name, *texts = line.split(maxsplit=9)
            ticks = [int(text) for text in texts[:8]]  # guests' time, which follows, is in the user time already
            now = (sum(ticks), ticks[3] + ticks[4], ticks[4])
            before = self._ticks.get(name)
            self._ticks[name] = now
            if before is None or now[0] <= before[0]:
                continue
            elapsed, idle, waiting = (end - start for end, start in zip(now, before, strict=True))
            if name == b"cpu":
                self._figures.add("node", self._node, "cpu_iowait_ratio", _ratio(waiting, elapsed))
            else:
                self._figures.add("core", name[3:].decode(), "cpu_util_ratio", _ratio(elapsed - idle, elapsed))

    def _memory(self) -> None:
        lines = read(f"{self._root}/proc/meminfo").splitlines()[:5]
        found = {line.split()[0]: int(line.split()[1]) * 1024 for line in lines}
        total, available = found[b"MemTotal:"], found[b"MemAvailable:"]
        self._figures.add("node", self._node, "memory_total", total)
        self._figures.add("node", self._node, "memory_available", available)
        self._figures.add("node", self._node, "memory_used", total - available)

    def _load(self) -> None:
        self._figures.add("node", self._node, "load_average_1m", float(read(f"{self._root}/proc/loadavg").split()[0]))

    def _pressure(self, file: str, names: tuple[bytes, ...], metrics: tuple[str, ...]) -> Callable[[], None]:
        path = f"{self._root}/proc/pressure/{file}"

        def part() -> None:
            found = {line.split()[0]: line for line in read(path).splitlines()}
            for name, metric in zip(names, metrics, strict=True):
                microseconds = int(found[name].rpartition(b"total=")[2])
                self._figures.difference("node", self._node, metric, microseconds / 1e6)

        return part

    def _find_cpu_stat(self, process_id: int | None) -> str:
        """The file of the process's control group (version 2), seen from our own name space or from the host's."""
        mount = f"{self._root}/sys/fs/cgroup"
        if not os.access(f"{mount}/cgroup.controllers", os.R_OK):
            mount += "/unified"
        try:
            lines = read(f"{self._root}/proc/{process_id or 'self'}/cgroup").decode().splitlines()
        except (OSError, ValueError):
            lines = []
        group = next((line[3:] for line in lines if line.startswith("0::")), "/")
        inner = f"{mount}{group.rstrip('/')}/cpu.stat"
        return inner if os.access(inner, os.R_OK) else f"{mount}/cpu.stat"

    def _throttling(self) -> None:
        found = dict(line.split() for line in read(self._cpu_stat).splitlines())
        self._figures.difference("node", self._node, "cpu_throttled", int(found[b"throttled_usec"]) / 1e6)

    def _disk_traffic(self) -> None:
        for line in read(f"{self._root}/proc/diskstats").splitlines():
            fields = line.split(maxsplit=13)
            if self._is_disk(fields[2]):
                name = fields[2].decode()
                self._figures.difference("disk", name, "read_bytes", int(fields[5]) * SECTOR_BYTES)
                self._figures.difference("disk", name, "write_bytes", int(fields[9]) * SECTOR_BYTES)
                self._figures.difference("disk", name, "io_time", int(fields[12]) / 1e3)

    def _is_disk(self, name: bytes) -> bool:
        """Whole devices only: a partition's traffic is its disk's too."""
        if name not in self._disks:
            text = name.decode()
            is_whole = os.access(f"{self._root}/sys/block/{text.replace('/', '!')}", os.F_OK)
            self._disks[name] = is_whole and not text.startswith(_VIRTUAL_DISKS)
        return self._disks[name]

    def _nic_traffic(self) -> None:
        for line in read(f"{self._root}/proc/net/dev").decode().splitlines()[2:]:
            name, _, texts = line.partition(":")
            if not name.strip().startswith(_VIRTUAL_NICS):
                fields = texts.split()
                self._figures.difference("nic", name.strip(), "received_bytes", int(fields[0]))
                self._figures.difference("nic", name.strip(), "sent_bytes", int(fields[8]))


def _ratio(part: int, whole: int) -> float:
    """Within 0 and 1: the kernel's idle and waiting times are estimates that can step back."""
    return min(1.0, max(0.0, part / whole))
