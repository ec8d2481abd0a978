"""How right findings are: simulated jobs with known faults, of seeds that nothing was tuned on, through the pipeline.

`python -m bench causes` measures the full sets; `python -m bench.causes --labelled 24 --seed 1` part of one, for
development (seed 1), with every finding that is wrong or missing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.causes.score import Finding, summary
from tracelake.recorder.simulate.fleet import Job

LABELLED, CLEAN = 240, 300
LABELLED_SEED, CLEAN_SEED = 4, 5
"""Seeds of the measurement; 1 is for development."""
_BATCH = 60
"""Jobs in a lake at a time."""


def measure() -> dict[str, Any]:
    """Recall, precision, cost and confusion of the labelled set; false findings of the clean one."""
    from tracelake.recorder.simulate.labelled import clean, labelled

    return {
        "seeds": {"labelled": LABELLED_SEED, "clean": CLEAN_SEED},
        "labelled": scored(labelled(LABELLED_SEED, LABELLED), LABELLED_SEED),
        "clean": scored(clean(CLEAN_SEED, CLEAN), CLEAN_SEED),
    }


def scored(jobs: Sequence[Job], seed: int) -> dict[str, Any]:
    """Simulate, run, and hold findings against the truth."""
    from tracelake.pipelines.session import spark_session
    from tracelake.recorder.simulate import simulate_jobs
    from tracelake.recorder.simulate.truth_files import read_truths

    spark = spark_session("bench")
    truths, found, seconds = [], dict[str, list[Finding]](), 0.0
    for first in range(0, len(jobs), _BATCH):
        with tempfile.TemporaryDirectory(prefix="tracelake-causes-") as folder:
            lake = Path(folder)
            simulate_jobs(lake, jobs[first : first + _BATCH], seed=seed, workers=2)
            started = time.monotonic()
            found |= findings(lake, spark)
            seconds += time.monotonic() - started
            truths += read_truths(lake)
    return {**summary(truths, found), "run_seconds": round(seconds, 1)}


def findings(lake: Path, spark: Any) -> dict[str, list[Finding]]:
    """What a run of the lake finds, by job."""
    from tracelake.pipelines.lake import Lake
    from tracelake.pipelines.runner import run

    run(Lake(lake), spark)
    found: dict[str, list[Finding]] = {}
    for row in Lake(lake).read(spark, "aggregates.findings").collect():
        found.setdefault(row["job_id"], []).append(Finding.of(row))
    return found
