"""Run a piece of Python in a process of its own and measure it: wall seconds and peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any


def measured(code: str, *args: str, python: str = sys.executable, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Seconds of the whole process, its peak resident bytes, and what it printed as JSON on its last line.

    Raises RuntimeError with its errors where it fails.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        [python, "-c", code, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    out, err = process.communicate()
    seconds = time.monotonic() - started
    if process.returncode:
        raise RuntimeError(err[-2000:])
    return {"seconds": round(seconds, 3), **json.loads(out.strip().splitlines()[-1])}


PEAK = (
    "import resource; peak = max(resource.getrusage(w).ru_maxrss"
    " for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) * 1024\n"
)
"""Code that sets `peak`, the process's (or its largest child's) peak resident bytes."""
