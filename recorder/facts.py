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
    tags = {}
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is not None and isinstance(getattr(run, "id", None), str):
        tags["WANDB_RUN_ID"] = run.id
    return {"framework": ", ".join(named) or None, "tags": {**tags, **_given}}


_given: dict[str, str] = {}


def tag(tags: Mapping[str, str]) -> None:
    """Add tags while the job runs; they reach the data with the next second."""
    _given.update(hide_map(tags))


def _version(module: str) -> str:
    return str(getattr(sys.modules[module], "__version__", "")).split("+")[0]
