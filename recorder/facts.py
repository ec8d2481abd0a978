"""What the training process knows of itself, gathered without importing anything that it has not imported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracelake.recorder.redact import hide_map
from tracelake.recorder.samplers.clock import pair

_WANDB = (("RUN_ID", "id"), ("PROJECT", "project"), ("ENTITY", "entity"))
_FRAMEWORKS = (("torch", "PyTorch"), ("tensorflow", "TensorFlow"), ("jax", "JAX"))


def write_process(path: Path, described: Mapping[str, Any]) -> None:
    """Write process.json as a whole. Raises OSError."""
    aside = path.with_suffix(f".{os.getpid()}.tmp")
    aside.write_text(json.dumps(described, sort_keys=True))
    aside.replace(path)


def clock_offset_ns() -> int:
    """Unix time minus the monotonic clock."""
    monotonic_ns, unix_ns, _ = pair(9)
    return unix_ns - monotonic_ns


def current() -> dict[str, Any]:
    """{framework, tags} as far as they are known by now."""
    named = [f"{name} {_version(module)}" for module, name in _FRAMEWORKS if module in sys.modules]
    return {"framework": ", ".join(named) or None, "tags": {**_wandb_run(), **_mlflow_run(), **_given}}


def _wandb_run() -> dict[str, str]:
    """Which run of Weights & Biases the script opened."""
    run = getattr(sys.modules.get("wandb"), "run", None)
    found = {f"WANDB_{name}": getattr(run, attribute, None) for name, attribute in _WANDB}
    return hide_map({name: value for name, value in found.items() if isinstance(value, str) and value})


def _mlflow_run() -> dict[str, str]:
    """The run that the script opened in MLflow, in whichever thread; the outermost, as nested ones are parts of it.

    Only MLflow's own record of it tells without asking its server. It is no public name, so it may be anything.
    """
    record = getattr(sys.modules.get("mlflow.tracking.fluent"), "_active_run_stack", None)
    stacks: object = getattr(record, "get_all_thread_values", dict)()
    runs = [s[0] for s in stacks.values() if isinstance(s, list) and s] if isinstance(stacks, dict) else []
    run_id = getattr(getattr(runs[0], "info", None), "run_id", None) if runs else None
    return hide_map({"MLFLOW_RUN_ID": run_id}) if isinstance(run_id, str) else {}


_given: dict[str, str] = {}


def tag(tags: Mapping[str, str]) -> None:
    """Add tags while the job runs; they reach the data with the next second."""
    _given.update(hide_map(tags))


def _version(module: str) -> str:
    return str(getattr(sys.modules[module], "__version__", "")).split("+")[0]
