"""Neighbours on a stream, against a naive oracle."""

from __future__ import annotations

import random

from expect import SHIFT_NS, small_data
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tracelake.pipelines.functions.intervals import SLICE_NS
from tracelake.pipelines.functions.streams import next_on_stream

EXAMPLES = 200
SCALES = ((0, 1), (SLICE_NS - 6, 1), (SHIFT_NS, 1_900_000_007))
FIELDS = (
    "job_id string, source_id string, device_id string, stream_id bigint, event_id bigint, start_ns bigint,"
    " end_ns bigint, launch_id bigint"
)
Kernel = tuple[str, str, str, int | None, int, int, int, int]


def example(rng: random.Random, job: str) -> list[Kernel]:
    base, unit = rng.choice(SCALES)
    found = []
    for number in range(rng.randint(0, 8)):
        start, end = sorted(rng.choices(range(13), k=2))
        place = (job, rng.choice("st"), rng.choice("de"), rng.choice((7, 8, None)))
        found.append((*place, number, base + unit * start, base + unit * end, number))
    return found


def follows(kernel: Kernel, kernels: list[Kernel]) -> tuple[int | None, int | None]:
    """Of kernels with a length that start strictly later on the stream: the next start, and the earliest end."""
    later = [other for other in kernels if other[:4] == kernel[:4] and other[6] > other[5] > kernel[5]]
    return min((k[5] for k in later), default=None), min((k[6] for k in later), default=None)


@settings(max_examples=2, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_each_kernel_keeps_its_row_and_finds_what_follows(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    examples = {f"job{number}": example(rng, f"job{number}") for number in range(EXAMPLES)}
    kernels = [kernel for some in examples.values() for kernel in some]
    with small_data(spark):
        rows = next_on_stream(spark.createDataFrame(kernels, FIELDS)).collect()
    assert sorted((row["job_id"], row["event_id"]) for row in rows) == sorted((k[0], k[4]) for k in kernels)
    got = {(row["job_id"], row["event_id"]): (row["next_start_ns"], row["earliest_end_ns"]) for row in rows}
    wrong = [(k, got[k[0], k[4]]) for k in kernels if got[k[0], k[4]] != follows(k, examples[k[0]])]
    assert not wrong[:1]
