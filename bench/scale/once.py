"""One run of the pipeline in a process of its own: `python -m bench.scale.once LAKE [SETTING=VALUE...]`, as JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

TICK = os.sysconf("SC_CLK_TCK")


def main() -> None:
    started = time.monotonic()
    from tracelake.pipelines.lake import Lake
    from tracelake.pipelines.runner import run
    from tracelake.pipelines.session import spark_session

    settings = dict(given.split("=", 1) for given in sys.argv[2:])
    spark = spark_session("bench", settings)
    ready = time.monotonic()
    written: dict[str, float] = {}
    done = run(
        Lake(Path(sys.argv[1])), spark, progress=lambda name, share: written.update({name: time.monotonic() - ready})
    )
    ended = time.monotonic()
    jvm = spark.sparkContext._gateway.proc.pid
    mine = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "session_s": ready - started,
        "run_s": ended - ready,
        **{f"{name}_s": seconds for name, seconds in done.seconds.items()},
        "cpu_s": mine.ru_utime + mine.ru_stime + _cpu_s(jvm),
        "jvm_peak_bytes": _peak_bytes(jvm),
        "python_peak_bytes": mine.ru_maxrss * 1024,
        "rows_read": int(done.rows.get("read", 0)),
        "sources": done.sources,
        "broken": len(done.broken),
        "checks": dict(done.checks),
        "written_at_s": {name: round(at, 1) for name, at in written.items()},
    }
    print(json.dumps({name: round(value, 2) if isinstance(value, float) else value for name, value in found.items()}))


def _cpu_s(pid: int) -> float:
    """Processor seconds of a process and of its children that have ended."""
    fields: list[str] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


def _peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def run_once(lake: Path, **settings: Any) -> dict[str, Any]:
    """The figures of one run of `lake`, in a fresh process. Raises RuntimeError with its errors where it fails."""
    import subprocess

    command = [sys.executable, "-m", "bench.scale.once", str(lake), *[f"{k}={v}" for k, v in settings.items()]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
