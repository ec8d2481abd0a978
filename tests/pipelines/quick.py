"""Runs that make only what a test looks at, since each table costs seconds of planning; and Java that starts fast."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from tracelake.pipelines import runner
from tracelake.pipelines.parameters import Parameters
from tracelake.pipelines.runner import RunResult
from tracelake.schemas.catalog import made_from, tables


def _named(*names: str) -> tuple[str, ...]:
    return tuple(f"aggregates.{name}" for name in names)


LAST = _named("findings", "fleet_daily", "stream_queues", "what_if")
"""Tables that no other reads."""
CAUSES = (
    *LAST,
    *_named(
        "clock_alignment", "collective_matches", "collective_waits", "idle_causes", "outlier_steps", "step_samples",
        "stragglers", "critical_path",
    ),
)  # fmt: skip
"""Tables of causes, but for those that job_summary rests on."""

MOST = (
    *CAUSES,
    *_named(
        "annotation_histogram", "device_ledger", "device_activity", "device_samples", "job_summary", "launch_stats",
        "memop_stats", "precision_stats", "rank_stats", "rank_steps", "step_times", "utilization",
    ),
)  # fmt: skip
"""All but a few that stand for each way in which tables are written: by window and by job, one after another."""


def run_without(*left_out: str) -> Callable[..., RunResult]:
    """`run` that leaves these tables out."""
    return partial(runner.run, parameters=Parameters(left_out_tables=left_out))


run = run_without(*CAUSES)


def only_for(*names: str) -> Callable[..., RunResult]:
    """`run` that makes these aggregates and what they rest on."""
    return run_without(*sorted(set(tables("aggregates")) - made_from(*_named(*names))))


def conf_without(*left_out: str) -> str:
    """The same for a command: text of a conf file."""
    return f"[parameters]\nleft_out_tables = {json.dumps(left_out)}\n"


# Programs of a minute, several at once on two cores: the better compiler does not pay. Without more room for compiled
# code Java has 48 MB of it, and a run that fills them dies.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
