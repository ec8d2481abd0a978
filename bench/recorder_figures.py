"""What the recorder's measurements share: medians with an interval, CPU of threads, a stand-in GPU, other Pythons."""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "tests/recorder/native"
PYTHONS = "TRACELAKE_BENCH_PYTHONS"
"""Variable with the paths of Pythons to measure, separated as in PATH; else those of PATH that start."""
VERSIONS = ("3.10", "3.11", "3.12", "3.13")


def median_interval(values: Sequence[float], digits: int = 4) -> dict[str, Any]:
    """The median, and the order statistics around it that hold the true one with a chance of at least 95 %.

    Below six values there is no such pair, and the interval is the whole range.
    """
    ordered, count = sorted(values), len(values)
    tail, rank = 0.0, -1
    while (tail := tail + math.comb(count, rank + 1) / 2**count) <= 0.025:
        rank += 1
    low, high = ordered[max(0, rank)], ordered[count - 1 - max(0, rank)]
    rounded = {
        "median": round(statistics.median(ordered), digits),
        "low": round(low, digits),
        "high": round(high, digits),
    }
    return {**rounded, "count": count}


def cpu_ns(process_id: int, thread_id: int | None = None) -> int:
    """CPU time so far of a process's living threads, or of one of them; 0 for what is gone."""
    folder = Path(f"/proc/{process_id}/task")
    total = 0
    for task in [folder / str(thread_id)] if thread_id else folder.iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (OSError, ValueError):
            continue
    return total


def thread_ids(process_id: int, name: str) -> list[int]:
    """Threads of a process by what the kernel calls them (at most 15 characters)."""
    tasks = Path(f"/proc/{process_id}/task").iterdir()
    return [int(task.name) for task in tasks if (task / "comm").read_text().strip() == name[:15]]


def resident_bytes(process_id: int) -> int:
    return int(Path(f"/proc/{process_id}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def pythons() -> list[str]:
    """Pythons of different versions that start; see PYTHONS."""
    given = [path for path in os.environ.get(PYTHONS, "").split(os.pathsep) if path]
    names = given or [sys.executable, *(f"python{version}" for version in VERSIONS)]
    found: dict[str, str] = {}
    for name in names:
        path = shutil.which(name)
        version = path and _version(path)
        if path and version in VERSIONS:
            found.setdefault(version, path)
    return [found[version] for version in sorted(found, key=VERSIONS.index)]


def _version(python: str) -> str | None:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def environment(**more: str) -> dict[str, str]:
    """Variables of a child: none of the recorder's but those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE_")}
    return {**kept, **more}


def package_path() -> dict[str, str]:
    """Variables under which any Python finds tracelake in this tree (links that `make setup` makes)."""
    return {"PYTHONPATH": str(ROOT / "build/ns")}


def stand_in_gpu(folder: Path) -> dict[str, str]:
    """Build stand-ins for libcuda and libcupti; variables under which a child takes them for a GPU.

    Raises CalledProcessError or OSError where there is no C compiler.
    """
    for source, name in (("fake_cuda.c", "libcuda.so.1"), ("fake_cupti.c", "libcupti.so.13")):
        command = ["cc", "-O2", "-std=gnu11", "-fPIC", "-shared", str(NATIVE / source), "-o", str(folder / name)]
        subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_CUPTI": str(folder / "libcupti.so.13")}


def settings(folder: Path, **given: object) -> dict[str, str]:
    """TRACELAKE_ variables of a recording whose lake and spool lie in `folder`."""
    chosen = {"output": folder / "lake", "spool": folder / "spool", "job_id": "bench", **given}
    return {f"TRACELAKE_{name.upper()}": str(value) for name, value in chosen.items()}
