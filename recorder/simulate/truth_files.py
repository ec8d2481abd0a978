"""Truth as JSON beside the raw data, a file for each job: <lake>/truth/<job_id>.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tracelake.recorder.simulate.truth import DeviceTruth, FaultTruth, JobTruth

FOLDER = "truth"


def write_truths(lake: Path, truths: Iterable[JobTruth]) -> None:
    folder = lake / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for truth in truths:
        path = folder / f"{quote(truth.job_id, safe='')}.json"
        path.write_text(json.dumps(asdict(truth), indent=1, sort_keys=True))


def read_truths(lake: Path) -> tuple[JobTruth, ...]:
    """What is true of every simulated job of a lake whose truth was written, in order of their ids."""
    return tuple(truth_of(json.loads(path.read_text())) for path in sorted((lake / FOLDER).glob("*.json")))


def truth_of(raw: Mapping[str, Any]) -> JobTruth:
    """A truth from what JSON holds of it."""
    return JobTruth(
        **{
            **raw,
            "compute_factors": _by_number(raw["compute_factors"]),
            "interrupted_source_ids": tuple(raw["interrupted_source_ids"]),
            "also_true": tuple(raw["also_true"]),
            "faults": tuple(map(_fault, raw["faults"])),
            "devices": tuple(map(_device, raw["devices"])),
        }
    )


def _fault(raw: Mapping[str, Any]) -> FaultTruth:
    numbered = {name: _by_number(raw[name]) for name in ("excess_ns", "own_excess_ns")}
    return FaultTruth(**{**raw, **numbered, "ranks": tuple(raw["ranks"])})


def _device(raw: Mapping[str, Any]) -> DeviceTruth:
    return DeviceTruth(**{**raw, "step_durations_ns": tuple(raw["step_durations_ns"])})


def _by_number(raw: Mapping[str, Any]) -> dict[int, Any]:
    """JSON has text for keys only."""
    return {int(key): value for key, value in raw.items()}
