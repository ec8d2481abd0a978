"""What a stream's kernels tell each other across slices of time, against naive oracles."""

from __future__ import annotations

import random

from expect import small_data
from pyspark.sql import SparkSession

from tracelake.pipelines.functions.intervals import SLICE_NS
from tracelake.pipelines.functions.streams import crowded, free_before, lane

FIELDS = (
    "job_id string, source_id string, device_id string, stream_id bigint, launch_id bigint, start_ns bigint,"
    " end_ns bigint"
)
Kernel = tuple[str, str, str, int | None, int, int, int]


def example(rng: random.Random, job: str) -> list[Kernel]:
    """Kernels of a few streams, around an edge of slices, and some that reach over several."""
    base = rng.choice((0, 7 * SLICE_NS - 6))
    found = []
    for number in range(rng.randint(0, 8)):
        start = base + rng.randint(0, 12)
        length = rng.choice((0, rng.randint(1, 6), 3 * SLICE_NS))
        found.append((job, rng.choice("st"), "d", rng.choice((7, 8, None)), number, start, start + length))
    return found


def made(seed: int) -> list[Kernel]:
    rng = random.Random(seed)
    return [kernel for number in range(200) for kernel in example(rng, f"job{number}")]


def test_a_stream_is_crowded_where_a_kernel_contains_a_later_one(spark: SparkSession) -> None:
    kernels = made(1)
    with small_data(spark):
        frame = spark.createDataFrame(kernels, FIELDS).withColumn("lane", lane())
        suspects = {row["lane"] for row in crowded(frame).collect()}
        lanes = {(tuple(row)[:4]): row["lane"] for row in frame.collect()}
    for key, number in lanes.items():
        mine = [kernel for kernel in kernels if kernel[:4] == key and kernel[6] > kernel[5]]
        contains = any(a[5] < b[5] and b[6] <= a[6] for a in mine for b in mine)
        # Kernels that start together may be asked about in vain; one after the other never.
        touches = any(a is not b and a[5] < b[6] and b[5] < a[6] for a in mine for b in mine)
        assert contains <= (number in suspects) <= touches, (key, mine)


def test_a_stream_is_busy_until_the_latest_end_of_what_ran_before(spark: SparkSession) -> None:
    kernels = made(2)
    with small_data(spark):
        frame = spark.createDataFrame(kernels, FIELDS).selectExpr(
            "*", "end_ns AS effective_end_ns", "end_ns - start_ns AS duration_ns", "0L AS launch_delay_ns"
        )
        rows = free_before(frame).select("lane", "launch_id", "start_ns", "effective_end_ns", "busy_until_ns").collect()
        lanes = {(*tuple(row)[:5],): row["lane"] for row in frame.withColumn("lane", lane()).collect()}
    assert len(rows) == len(kernels)
    got = {tuple(row)[:2]: row["busy_until_ns"] for row in rows}
    for kernel in kernels:
        before = [k for k in kernels if k[:4] == kernel[:4] and (k[5], k[6]) < (kernel[5], kernel[6])]
        equal = [k for k in kernels if k[:4] == kernel[:4] and k[5:] == kernel[5:] and k is not kernel]
        wanted = {max((k[6] for k in before), default=None)} | {k[6] for k in equal}
        assert got[lanes[kernel[:5]], kernel[4]] in wanted, kernel
