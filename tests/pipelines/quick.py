"""Runs for tests of how tables are written, whichever they are: without those of causes, and Java that starts fast."""

from __future__ import annotations

import json
from functools import partial

from tracelake.pipelines import runner
from tracelake.pipelines.parameters import Parameters

CAUSES = tuple(
    f"aggregates.{name}"
    for name in (
        "clock_alignment", "collective_matches", "collective_waits", "device_samples", "findings", "fleet_daily",
        "idle_causes", "outlier_steps", "rank_stats", "rank_steps", "step_samples", "step_times", "stragglers",
        "stream_queues", "what_if",
    )
)  # fmt: skip
"""Half of a small run's time goes into planning these."""
run = partial(runner.run, parameters=Parameters(left_out_tables=CAUSES))
CONF = f"[parameters]\nleft_out_tables = {json.dumps(CAUSES)}\n"
"""The same for a command."""

# Programs of a minute, several at once on two cores: the better compiler does not pay. Without more room for compiled
# code Java has 48 MB of it, and a run that fills them dies.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
