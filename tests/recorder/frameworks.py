"""Pythons with real frameworks, for tests that run scripts in them; absent ones are skipped with the reason."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_ENVIRONMENTS = ROOT / "build" / "envs"


def torch_python() -> str:
    """A Python with PyTorch 1.13 (Debian's) or TRACELAKE_TORCH_PYTHON's."""
    return _existing(os.environ.get("TRACELAKE_TORCH_PYTHON") or str(_ENVIRONMENTS / "torch/bin/python"), "torch")


def framework_python(module: str, environment: str) -> str:
    """A Python of build/envs that has a module."""
    return _existing(str(_ENVIRONMENTS / environment / "bin/python"), module)


def _existing(python: str, module: str) -> str:
    if not Path(python).exists():
        pytest.skip(f"no environment with {module}: {python} does not exist")
    if not _has(python, module):
        pytest.skip(f"{python} has no {module} or no tracelake")
    return python


@functools.cache
def _has(python: str, module: str) -> bool:
    found = f"import importlib.util as u, sys; sys.exit(not (u.find_spec({module!r}) and u.find_spec('tracelake')))"
    return subprocess.run([python, "-c", found], capture_output=True).returncode == 0


def run_script(python: str, script: str, **environ: str) -> Any:
    """What a script prints last, as JSON. Its own process, since frameworks are hooked for good."""
    given = {"TRACELAKE_ENABLED": "0", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", **environ}
    ran = subprocess.run(
        [python, "-c", script], capture_output=True, text=True, timeout=240, env={**os.environ, **given}
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])
