"""How long a command waits for Spark before it can work."""

from __future__ import annotations

import statistics
from typing import Any

from bench.child import measured

_CODE = """
import json, time
started = time.monotonic()
from tracelake.pipelines.session import spark_session
session = spark_session("bench")
ready = time.monotonic() - started
session.range(1).collect()
print(json.dumps({"session_s": ready, "first_query_s": time.monotonic() - started - ready}))
"""


def measure() -> dict[str, Any]:
    """Median of three fresh processes."""
    runs = [measured(_CODE) for _ in range(3)]
    return {key: round(statistics.median(run[key] for run in runs), 2) for key in ("session_s", "first_query_s")}
