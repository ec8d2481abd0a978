"""How the pipeline grows: fleets of 10, 100 and 1,000 jobs, one large job, a second night; DuckDB as the limit.

`python -m bench scale` runs the full sizes; `python -m bench.scale --times 0.01` all of them scaled down. Everything
lies in a temporary folder (TMPDIR), which needs about 60 bytes per event.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.scale.fleet import Made, write_fleet, write_job

KERNELS_PER_JOB = 100_000
FLEETS = (10, 100, 1_000)
LARGE_JOB = 50_000_000
TINY_JOB = 1
COMPARED = 10
"""The fleet that DuckDB computes too, beside the large job."""


def measure(times: float = 1.0) -> dict[str, Any]:
    """All sizes, each in a lake and a process of its own; `times` scales the kernels of each."""
    with tempfile.TemporaryDirectory(prefix="tracelake-scale-") as folder:
        root = Path(folder)
        found: dict[str, Any] = {"fixed": _fixed(root / "tiny")}
        kernels = max(1, int(KERNELS_PER_JOB * times))
        for jobs in FLEETS:
            lake = root / f"fleet-{jobs}"
            found[f"fleet_{jobs}"] = _measured(lake, write_fleet(lake, jobs, kernels), jobs == COMPARED)
            if jobs == FLEETS[-1]:
                found["second_night"] = _second_night(lake, jobs, kernels, found)
            shutil.rmtree(lake)
        large = root / "large"
        made = write_job(large, "large", max(1, int(LARGE_JOB * times)))
        found["large_job"] = _measured(large, made, True)
        return found


def _fixed(lake: Path) -> dict[str, Any]:
    """What a run costs whatever its data."""
    return _measured(lake, write_job(lake, "tiny", TINY_JOB), False)


def _measured(lake: Path, made: Made, is_compared: bool, **settings: str) -> dict[str, Any]:
    from bench.scale.once import run_once
    from bench.scale.tables import sizes

    run = run_once(lake, **settings)
    stored = sizes(lake)
    millions = made.events / 1e6
    events = {name: each for name, each in stored.items() if name.startswith("normalized.")}
    result = {
        "jobs": made.jobs,
        "sources": made.sources,
        "kernels": made.rows["kernel"],
        "events": made.events,
        "raw_bytes_per_event": round(made.bytes / made.events, 2),
        "run": run,
        "cpu_s_per_million_events": round(run["cpu_s"] / millions, 2),
        "seconds_per_million_events": round(run["run_s"] / millions, 2),
        "lake_bytes_per_event": round(sum(each["bytes"] for each in stored.values()) / made.events, 2),
        "files": sum(each["files"] for each in stored.values()),
        "files_per_event_table": {name.partition(".")[2]: each["files"] for name, each in events.items()},
    }
    return {**result, "duckdb": compared(lake)} if is_compared else result


def compared(lake: Path) -> dict[str, Any]:
    """DuckDB's time for the aggregates of the event tables, and where the two differ."""
    from bench.scale.limit import compute
    from bench.scale.tables import differing

    with tempfile.TemporaryDirectory(prefix="tracelake-limit-", dir=lake.parent) as work:
        before, started = _cpu_s(), time.monotonic()
        db = compute(lake, Path(work))
        figures = {"seconds": round(time.monotonic() - started, 2), "cpu_s": round(_cpu_s() - before, 2)}
        return {**figures, "rows_that_differ": differing(lake, db)}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _second_night(lake: Path, jobs: int, kernels: int, found: dict[str, Any]) -> dict[str, Any]:
    """One per cent new jobs in a lake that holds the rest: what it costs over the fixed part."""
    from bench.scale.once import run_once

    made = write_fleet(lake, max(1, jobs // 100), kernels, first=jobs)
    run = run_once(lake)
    first, fixed = found[f"fleet_{jobs}"]["run"], found["fixed"]["run"]
    return {
        "jobs": made.jobs,
        "events": made.events,
        "run": run,
        "over_fixed_s": round(run["run_s"] - fixed["run_s"], 2),
        "over_fixed_ratio_of_first_night": round((run["run_s"] - fixed["run_s"]) / first["run_s"], 4),
        "over_fixed_cpu_ratio_of_first_night": round((run["cpu_s"] - fixed["cpu_s"]) / first["cpu_s"], 4),
    }
