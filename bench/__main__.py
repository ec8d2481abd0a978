"""Run the measurements: `python -m bench [NAME...]`; results go to bench/results/NAME.json with the machine."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

NAMES = (
    "session_start",
    "import_speed",
    "import_memory",
    "job_report",
    "real_traces",
    "checks_cost",
    "causes",
    "hta_agreement",
    "recorder_annotations",
    "recorder_drain",
    "recorder_load",
    "recorder_overhead",
    "recorder_size",
    "recorder_stop",
    "scale",
    "timeline",
)
RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """What a figure depends on."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "cpu": model,
        "memory_bytes": pages * page,
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def main() -> None:
    """Run those named, or all."""
    RESULTS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or NAMES:
        about = machine()
        result = importlib.import_module(f"bench.{name}").measure()
        path = RESULTS / f"{name}.json"
        path.write_text(json.dumps({"name": name, "machine": about, **result}, indent=1) + "\n")
        print(f"{name}: {json.dumps(result)}")


if __name__ == "__main__":
    main()
