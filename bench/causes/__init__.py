"""How right findings are: simulated jobs with known faults, of seeds that nothing was tuned on, through the pipeline.

`python -m bench causes` measures the full sets; `python -m bench.causes --labelled 24 --seed 1` part of one, for
development (seed 1), with every finding that is wrong or missing. What a batch of jobs gave is kept in build/causes/
under the code's digest, so a measurement that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.causes.score import Finding, summary
from tracelake.recorder.simulate.fleet import Job

LABELLED, CLEAN = 240, 300
LABELLED_SEED, CLEAN_SEED = 4, 5
"""Seeds of the measurement; 1 is for development."""
_BATCH = 60
"""Jobs in a lake at a time."""
_ROOT = Path(__file__).parents[2]
_KEPT = _ROOT / "build/causes"
_CODE = ("bench/causes", "recorder", "pipelines", "schemas")
"""What findings follow from."""


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
    from tracelake.recorder.simulate.truth_files import truth_of

    folder = _KEPT / _digest()
    folder.mkdir(parents=True, exist_ok=True)
    truths, found, seconds = [], dict[str, list[Finding]](), 0.0
    for first in range(0, len(jobs), _BATCH):
        batch = jobs[first : first + _BATCH]
        path = folder / f"{batch[0].job_id}-{len(batch)}.json"
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_text(json.dumps(_ran(batch, seed)))
            part.replace(path)
        kept = json.loads(path.read_text())
        truths += [truth_of(each) for each in kept["truths"]]
        found |= {job: [Finding(**each) for each in told] for job, told in kept["findings"].items()}
        seconds += kept["run_seconds"]
    return {**summary(truths, found), "run_seconds": round(seconds, 1)}


def _digest() -> str:
    """Of all code that findings follow from."""
    found = hashlib.sha256()
    for path in sorted(path for folder in _CODE for path in (_ROOT / folder).rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _ran(jobs: Sequence[Job], seed: int) -> dict[str, Any]:
    """What is true of these jobs and what a run in a lake of their own finds, as JSON has it."""
    from tracelake.pipelines.session import spark_session
    from tracelake.recorder.simulate import simulate_jobs
    from tracelake.recorder.simulate.truth_files import read_truths

    with tempfile.TemporaryDirectory(prefix="tracelake-causes-") as folder:
        lake = Path(folder)
        simulate_jobs(lake, jobs, seed=seed, workers=2)
        started = time.monotonic()
        found = findings(lake, spark_session("bench"))
        return {
            "truths": [asdict(each) for each in read_truths(lake)],
            "findings": {job: [asdict(each) for each in told] for job, told in found.items()},
            "run_seconds": time.monotonic() - started,
        }


def findings(lake: Path, spark: Any) -> dict[str, list[Finding]]:
    """What a run of the lake finds, by job. Tables that findings do not rest on are left out."""
    from tracelake.pipelines.lake import Lake
    from tracelake.pipelines.parameters import Parameters
    from tracelake.pipelines.runner import run
    from tracelake.schemas.catalog import made_from, tables

    unread = set(tables("aggregates")) - made_from("aggregates.findings")
    run(Lake(lake), spark, parameters=Parameters(left_out_tables=tuple(sorted(unread))))
    found: dict[str, list[Finding]] = {}
    for row in Lake(lake).read(spark, "aggregates.findings").collect():
        found.setdefault(row["job_id"], []).append(Finding.of(row))
    return found
