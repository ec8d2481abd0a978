"""What recording costs a training step, beside torch.profiler on the same steps: a small CNN and transformer on CPU.

On one thread, so that on two cores the sidecar has the other: what it uses is said apart, since a job that fills every
core pays for it. TRACELAKE_BENCH_TORCH names a Python with PyTorch; else the tests' own environment is used.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from statistics import median
from typing import Any

from bench.recorder_figures import ROOT, environment, median_interval, package_path

TORCH = "TRACELAKE_BENCH_TORCH"
ROUNDS = 9
ANNOTATIONS_PER_STEP = 4
LIMITS = {"own_cpu_share": 0.01, "of_torch_profiler": 0.1}


def measure() -> dict[str, Any]:
    """Per model: the recorder's own CPU per step, and the end-to-end difference of both, paired round by round."""
    python = os.environ.get(TORCH) or str(ROOT / "build/envs/torch/bin/python")
    return {
        "how": f"{ROUNDS} rounds of a plain, a recorded, a plain and a profiled block, every other one backwards; each"
        " is compared with the plain blocks of its round; 4 annotations per step, sampling every 500 ms",
        **{name: _model(python, name) for name in ("cnn", "transformer")},
        "limits": LIMITS,
    }


def _model(python: str, name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, str(ROOT / "bench/recorder_training.py"), name, str(ROUNDS), folder],
            capture_output=True,
            text=True,
            env=environment(**package_path()),
            check=False,
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    run = json.loads(done.stdout.splitlines()[-1])
    return {"torch": run["torch"], "python": run["python"], **summary(run["rounds"])}


def summary(rounds: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    ours, theirs = [each["recorded"] for each in rounds], [each["profiled"] for each in rounds]
    plain = [_mean(each, "wall_us") for each in rounds]
    step_us, step_cpu_us = median(plain), median(_mean(each, "main_cpu_us") for each in rounds)
    own_us = [each["annotation_us"] * ANNOTATIONS_PER_STEP + each["flush_us_per_step"] for each in ours]
    result: dict[str, Any] = {
        "step_us": round(step_us, 1),
        "own_cpu": {
            "us_per_step": median_interval(own_us, 2),
            "annotation_us": median_interval([each["annotation_us"] for each in ours], 3),
            "flush_us_per_step": median_interval([each["flush_us_per_step"] for each in ours], 2),
            "share_of_step": median_interval([own / base for own, base in zip(own_us, plain, strict=True)], 5),
        },
        "sidecar": {
            "share_of_a_core": median_interval([each["sidecar_us_per_second"] / 1e6 for each in ours], 4),
            "start_cpu_s": round(median(each["sidecar_start_us"] for each in ours) / 1e6, 3),
        },
    }
    for form, key in (("recorded", "tracelake"), ("profiled", "torch_profiler")):
        result[key] = {
            "added_share_of_wall": median_interval([_added(each, form, "wall_us") for each in rounds]),
            "added_share_of_main_cpu": median_interval([_added(each, form, "main_cpu_us") for each in rounds]),
            "start_seconds": round(median(each[form]["start_seconds"] for each in rounds), 4),
            "stop_seconds": round(median(each[form]["stop_seconds"] for each in rounds), 4),
        }
    result["against_torch_profiler"] = {
        "own_cpu_ratio": round(median(own_us) / (_theirs(result, "main_cpu")["median"] * step_cpu_us), 4),
        **{f"added_{clock}_ratio": _ratio(result, clock) for clock in ("wall", "main_cpu")},
        "profiled_steps_per_round": int(theirs[0]["steps"]),
    }
    limit, added = LIMITS["of_torch_profiler"], result["tracelake"]["added_share_of_wall"]
    result["holds"] = {
        "own_cpu_share": result["own_cpu"]["share_of_step"]["median"] <= LIMITS["own_cpu_share"],
        "own_cpu_of_torch_profiler": result["against_torch_profiler"]["own_cpu_ratio"] <= limit,
        "added_wall_of_torch_profiler": result["against_torch_profiler"]["added_wall_ratio"]["high"] <= limit,
        "added_wall_can_be_told_from_0": added["count"] >= 6 and not added["low"] <= 0 <= added["high"],
    }
    return result


def _theirs(result: dict[str, Any], clock: str) -> dict[str, float]:
    found: dict[str, float] = result["torch_profiler"][f"added_share_of_{clock}"]
    return found


def _ratio(result: dict[str, Any], clock: str) -> dict[str, float]:
    """Our added time, and the interval around it, over the median of torch.profiler's."""
    added = result["tracelake"][f"added_share_of_{clock}"]
    return {key: round(added[key] / _theirs(result, clock)["median"], 4) for key in ("median", "low", "high")}


def _mean(round_: dict[str, dict[str, float]], key: str) -> float:
    return (round_["before"][key] + round_["after"][key]) / 2


def _added(round_: dict[str, dict[str, float]], form: str, key: str) -> float:
    """Share that a form adds: a recorded block lies between the two plain ones, a profiled one beside the second."""
    base = _mean(round_, key) if form == "recorded" else round_["after"][key]
    return round_[form][key] / base - 1
