"""A trace of one step and one kernel."""

from __future__ import annotations

import json
import os
from pathlib import Path

_TS = 1_700_000_000_000_000
EVENTS = (
    {"ph": "X", "cat": "user_annotation", "name": "step_1", "pid": 5, "tid": 5, "ts": _TS, "dur": 40},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": _TS + 5, "dur": 10,
     "args": {"correlation": 1, "device": 0, "stream": 7}},
)  # fmt: skip


def write_trace(path: Path) -> None:
    """An old file: the inbox waits for those that are being written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": EVENTS}))
    os.utime(path, (0, 0))
