"""What the checks cost: their share of a run, for a small lake, where starting things counts, and for many rows."""

from __future__ import annotations

import tempfile
from typing import Any

from bench.child import measured

_CODE = """
import json, sys, time
from pathlib import Path
from tracelake.pipelines.lake import Lake
from tracelake.pipelines.runner import run
from tracelake.pipelines.session import spark_session
from tracelake.recorder.simulate import simulate_job
from tracelake.recorder.simulate.bulk import simulate_kernels
from tracelake.recorder.simulate.fleet import jobs
lake, kernels = Lake(Path(sys.argv[1])), int(sys.argv[2])
if kernels:
    simulate_kernels(lake.root, "bulk", kernels, devices=2)
else:
    for job in [job for job in jobs(0.0) if job.fault_name in ("slow_step", "killed_process")]:
        simulate_job(lake.root, job)
session = spark_session("bench")
started = time.monotonic()
done = run(lake, session)
seconds = time.monotonic() - started
print(json.dumps({"run_s": round(seconds, 2), "stages_s": {k: round(v, 2) for k, v in done.seconds.items()},
                  "rows_stored": done.rows["stored"], "checks": dict(done.checks),
                  "check_share": round(done.seconds["check"] / seconds, 4)}))
"""
KERNELS = (0, 2_000_000)
"""0 is two small jobs."""


def measure() -> dict[str, Any]:
    """The stage that checks over the whole run, in a cold process each; the limit is a quarter."""
    found = []
    for kernels in KERNELS:
        with tempfile.TemporaryDirectory() as folder:
            found.append({"kernels": kernels, **measured(_CODE, folder, str(kernels))})
    return {"runs": found, "limits": {"check_share": 0.25}}
