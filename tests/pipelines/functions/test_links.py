"""Links of device events to launches, against a naive oracle."""

from __future__ import annotations

import random
from typing import Any

from expect import small_data
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tracelake.pipelines.functions.links import linked

EXAMPLES = 200
Launch = tuple[str, str, int, int | None, int, int]
Event = tuple[str, str, int, int | None, int]


def example(rng: random.Random, job: str) -> tuple[list[Launch], list[Event]]:
    """Launches and events of two sources that share correlation ids, some of them used again, some of them no ids."""
    launches: dict[tuple[str, int | None, int], Launch] = {}
    for number in range(rng.randint(0, 6)):
        source, id_, start = rng.choice("st"), rng.choice((None, -1, 0, 1, 2, 3)), rng.randint(0, 9)
        launches.setdefault((source, id_, start), (job, source, number, id_, start, start + rng.randint(0, 3)))
    events = [
        (job, rng.choice("st"), number, rng.choice((None, -1, 0, 1, 2, 3)), rng.randint(0, 9))
        for number in range(rng.randint(0, 8))
    ]
    return list(launches.values()), events


def launch_of(event: Event, launches: list[Launch]) -> tuple[int, int, int] | None:
    """The latest launch of its id that starts no later, else the first."""
    job, source, _, id_, start = event
    if id_ is None or id_ < 1:
        return None
    mine = sorted((x for x in launches if x[:2] == (job, source) and x[3] == id_), key=lambda launch: launch[4])
    before = [launch for launch in mine if launch[4] <= start]
    found = before[-1] if before else (mine[0] if mine else None)
    return found and (found[2], found[4], found[5])


@settings(max_examples=2, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_each_event_keeps_its_row_and_finds_its_launch(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    made = [example(rng, f"job{number}") for number in range(EXAMPLES)]
    launches = [launch for some, _ in made for launch in some]
    events = [event for _, some in made for event in some]
    fields = "job_id string, source_id string, {} bigint, correlation_id bigint, start_ns bigint"
    with small_data(spark):
        asked = spark.createDataFrame(events, fields.format("event_id"))
        calls = spark.createDataFrame(launches, fields.format("launch_id") + ", end_ns bigint")
        rows = linked(asked, calls).collect()
    got: dict[Any, Any] = {tuple(row)[:5]: row["launch"] and tuple(row["launch"]) for row in rows}
    assert len(rows) == len(events)
    wrong = [(e, got[e], launch_of(e, launches)) for e in events if got[e] != launch_of(e, launches)]
    assert not wrong[:1]
