"""The machine and a process tree, from the real /proc and from made-up ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracelake.recorder.samplers import Reading
from tracelake.recorder.samplers.node import METRICS, Node

BURN = "import sys\nprint(flush=True)\nwhile True: pass"
FIRST = {"memory_used", "memory_total", "memory_available", "load_average_1m", "memory_rss", "threads", "children"}


@contextmanager
def python(script: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has said that it is ready."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def until(node: Node, enough: Callable[[list[Reading]], bool], limit_seconds: float = 20.0) -> list[Reading]:
    """Readings up to the first tick after which there are enough."""
    rows: list[Reading] = []
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline:
        rows += node.sample()
        if enough(rows):
            return rows
        time.sleep(0.02)
    raise AssertionError("not within the limit")


def total(rows: list[Reading], metric: str, kind: str = "process") -> float:
    return sum(row.value or 0.0 for row in rows if row.metric == metric and row.entity_kind == kind)


def test_a_busy_process_shows_in_its_time_and_in_the_cores() -> None:
    with python(BURN) as process:
        node = Node(process.pid)
        began = time.monotonic()
        rows = until(node, lambda rows: total(rows, "cpu_time") >= 0.3)
        elapsed = time.monotonic() - began
    assert total(rows, "cpu_time") <= elapsed + 0.03
    ratios = [row.value for row in rows if row.metric == "cpu_util_ratio"]
    assert ratios and all(value is not None and 0.0 <= value <= 1.0 for value in ratios)
    assert max(value for value in ratios if value is not None) >= 0.5
    assert {row.entity_id for row in rows if row.metric == "cpu_time"} == {str(process.pid)}


def test_the_first_reading_has_no_differences() -> None:
    rows = Node(os.getpid()).sample()
    assert {row.metric for row in rows if row.is_valid} == FIRST | {"children_memory_rss"}
    assert all(row.reason for row in rows if not row.is_valid)


def test_readings_are_those_of_the_table() -> None:
    node = Node(os.getpid())
    rows = until(node, lambda rows: total(rows, "cpu_util_ratio", "core") > 0)
    assert {row[:3] for row in METRICS} >= {(row.entity_kind, row.metric, row.unit) for row in rows}
    assert len({row[:2] for row in METRICS}) == len(METRICS)
    assert len({(row.monotonic_ns, *row[1:4]) for row in rows}) == len(rows)


def test_time_of_children_counts_from_their_start_when_they_are_found_later() -> None:
    burn = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
    start = (
        "import subprocess, sys; print(flush=True); sys.stdin.readline(); "
        f"subprocess.run([sys.executable, '-c', {burn!r}])"
    )
    now_ns = 0
    with python(start) as process:
        node = Node(process.pid, lambda: now_ns, machine=False)
        assert total(node.sample(), "children") == 0
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        deadline = time.monotonic() + 20
        while total(node.sample(), "children") == 0 or total(rows := node.sample(), "children_memory_rss") < 1 << 20:
            assert time.monotonic() < deadline
            now_ns += 5_000_000_000
        rows = until(node, lambda rows: total(rows, "children_cpu_time") >= 0.1)
    assert total(rows[-10:], "children") == 1


def test_the_recorder_is_no_child_of_the_job() -> None:
    script = (
        "import os; from tracelake.recorder.samplers.node import Node; "
        "print([row.value for row in Node(os.getppid()).sample() if row.metric == 'children'])"
    )
    shell = ["sh", "-c", '"$0" -c "$1"; :', sys.executable, script]
    assert subprocess.run(shell, capture_output=True, text=True, check=True).stdout == "[0.0]\n"


def test_bytes_written(tmp_path: Path) -> None:
    script = (
        "import os, sys; print(flush=True); sys.stdin.readline(); f = open(sys.argv[1], 'wb'); "
        "f.write(bytes(4 << 20)); f.flush(); os.fsync(f.fileno()); print(flush=True); sys.stdin.readline()"
    )
    with python(script, str(tmp_path / "file")) as process:
        assert process.stdin is not None and process.stdout is not None
        node = Node(process.pid)
        node.sample()
        process.stdin.write(b"go\n")
        process.stdin.flush()
        process.stdout.readline()
        rows = node.sample()
        if "write_bytes" not in {row.metric for row in rows if row.entity_kind == "process" and row.is_valid}:
            pytest.skip("the kernel does not account for I/O here")
        counted = int((Path("/proc") / str(process.pid) / "io").read_text().split("write_bytes: ")[1].split()[0])
    if counted == 0:
        pytest.skip("the temporary folder is in memory")
    assert 4 << 20 <= total(rows, "write_bytes") <= counted
    assert total(rows, "voluntary_context_switches") >= 1


def test_a_process_that_ended_is_said_once() -> None:
    with python(BURN) as process:
        node = Node(process.pid)
        node.sample()
        process.kill()
        process.wait()
        rows = [row for row in node.sample() if row.entity_kind == "process"]
        assert {row.reason for row in rows} == {"process_gone"}
        assert len(rows) == sum(1 for row in METRICS if row[0] == "process")
        assert not [row for row in node.sample() if row.entity_kind == "process"]


def test_without_the_machine_only_the_process_is_read() -> None:
    node = Node(os.getpid(), machine=False)
    assert {row.entity_kind for row in node.sample() + node.sample()} == {"process"}


def test_no_process() -> None:
    assert "process" not in {row.entity_kind for row in Node(None).sample()}


def test_a_process_of_another_user_is_read_as_far_as_permitted() -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to become someone else")
    script = (
        "import os, sys; from tracelake.recorder.samplers.node import Node; pid = os.getppid(); os.setuid(65534); "
        "print(*(row.metric for row in Node(pid, machine=False).sample() if row.reason == 'no_permission'))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "read_bytes write_bytes\n"


class Root:
    """A made-up /proc and /sys."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "proc").mkdir()
        self.now_ns = 0
        self.node = Node(None, lambda: self.now_ns, node_id="n", root=str(path))

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def sample(self) -> dict[tuple[str, str, str], float | None]:
        self.now_ns += 500_000_000
        return {row[1:4]: row.value for row in self.node.sample() if row.is_valid}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def stat(*cores: str) -> str:
    """As /proc/stat, without the line of all cores together."""
    return "".join(f"cpu{number} {ticks}\n" for number, ticks in enumerate(cores)) + "intr 5\n"


def test_ratios_by_hand(root: Root) -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice
    root.write("proc/stat", "cpu  100 0 0 100 0 0 0 0 0 0\ncpu0 100 0 0 100 0 0 0 0 0 0\nintr 5\n")
    assert root.sample() == {}
    root.write("proc/stat", "cpu  130 0 5 150 10 1 2 2 30 0\ncpu0 130 0 5 150 10 1 2 2 30 0\nintr 5\n")
    # 30 + 5 + 1 + 2 + 2 of 100 ticks busy, 10 waiting; the guest's 30 are within the user's
    assert root.sample() == {("core", "0", "cpu_util_ratio"): 0.4, ("node", "n", "cpu_iowait_ratio"): 0.1}


def test_cores_that_appear_vanish_and_step_back(root: Root) -> None:
    root.write("proc/stat", stat("10 0 0 90 0 0 0 0"))
    root.sample()
    root.write("proc/stat", stat("20 0 0 80 0 0 0 0", "5 0 0 5 0 0 0 0"))  # same sum: no time passed
    assert root.sample() == {}
    root.write("proc/stat", stat("120 0 0 70 0 0 0 0", "10 0 0 10 0 0 0 0"))  # idle stepped back
    assert root.sample() == {("core", "0", "cpu_util_ratio"): 1.0, ("core", "1", "cpu_util_ratio"): 0.5}
    root.write("proc/stat", stat("220 0 0 70 0 0 0 0"))
    assert root.sample() == {("core", "0", "cpu_util_ratio"): 1.0}


def test_the_clock_may_step_back(root: Root) -> None:
    root.write("proc/stat", stat("10 0 0 90 0 0 0 0"))
    root.sample()
    root.now_ns -= 10_000_000_000
    root.write("proc/stat", stat("20 0 0 180 0 0 0 0"))
    assert root.sample() == {("core", "0", "cpu_util_ratio"): 0.1}


def test_what_is_missing_is_said_once(root: Root) -> None:
    rows = root.node.sample()
    assert {row.metric for row in rows} == {row[1] for row in METRICS if row[0] != "process"} - {"cpu_iowait_ratio"}
    assert {(row.is_valid, row.value, row.reason) for row in rows} == {(False, None, "not_available")}
    assert root.node.sample() == []
    root.write("proc/loadavg", "nonsense")
    root.write("proc/meminfo", "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 30 kB\n")
    assert root.sample() == {
        ("node", "n", "memory_total"): 102_400.0,
        ("node", "n", "memory_available"): 30_720.0,
        ("node", "n", "memory_used"): 71_680.0,
    }


def test_pressure_and_throttling(root: Root) -> None:
    for step in (0, 1):
        for name in ("cpu", "io", "memory"):
            some, full = 1_000_000 + step * 250_000, 500_000 + step * 100_000
            text = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\nfull avg10=0.00 total={full}\n"
            root.write(f"proc/pressure/{name}", text)
        root.write("sys/fs/cgroup/unified/cpu.stat", f"usage_usec 7\nnr_throttled 1\nthrottled_usec {step * 30_000}\n")
        rows = root.sample()
    assert rows == {
        ("node", "n", "pressure_cpu_some"): 0.25,
        ("node", "n", "pressure_io_some"): 0.25,
        ("node", "n", "pressure_io_full"): pytest.approx(0.1),
        ("node", "n", "pressure_memory_some"): 0.25,
        ("node", "n", "cpu_throttled"): 0.03,
    }


@pytest.mark.parametrize("inside", [True, False])
def test_control_group_as_the_container_or_the_host_sees_it(tmp_path: Path, inside: bool) -> None:
    group = tmp_path / "sys/fs/cgroup" / ("" if inside else "pod/job")
    group.mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu\n")
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/cgroup").write_text("0::/pod/job\n")
    (group / "cpu.stat").write_text("usage_usec 0\n")
    node = Node(7, root=str(tmp_path))
    for throttled in (1_000_000, 3_000_000):
        (group / "cpu.stat").write_text(f"throttled_usec {throttled}\n")
        rows = node.sample()
    assert [row.value for row in rows if row.metric == "cpu_throttled"] == [2.0]


def test_disks_and_interfaces(root: Root) -> None:
    (root.path / "sys/block/nvme0n1").mkdir(parents=True)
    (root.path / "sys/block/loop0").mkdir()
    head = "Inter-|   Receive\n face |bytes\n"
    for step in (0, 1):
        line = f"10 0 {{}} 5 0 {8 + step * 4} 1 6 0 {100 + step * 2} 1 0 {step * 250} 9 0 0 0 0\n"
        root.write("proc/diskstats", "".join(line.format(name) for name in ("nvme0n1", "nvme0n1p1", "loop0")))
        counters = f"{step * 700} 1 0 0 0 0 0 0 {step * 90} 1 0 0 0 0 0 0\n"
        root.write("proc/net/dev", head + "".join(f"{name:>6}: {counters}" for name in ("lo", "eth0", "veth12")))
        rows = root.sample()
    assert rows == {
        ("disk", "nvme0n1", "read_bytes"): 2048.0,
        ("disk", "nvme0n1", "write_bytes"): 1024.0,
        ("disk", "nvme0n1", "io_time"): 0.25,
        ("nic", "eth0", "received_bytes"): 700.0,
        ("nic", "eth0", "sent_bytes"): 90.0,
    }


def test_a_counter_that_began_anew_gives_no_difference(root: Root) -> None:
    for moved in (500, 100, 150):
        root.write("proc/net/dev", f"\n\neth0: {moved} 1 0 0 0 0 0 0 {moved} 1 0 0 0 0 0 0\n")
        rows = root.sample()
        if moved == 100:
            assert rows == {}
    assert rows == {("nic", "eth0", "received_bytes"): 50.0, ("nic", "eth0", "sent_bytes"): 50.0}
