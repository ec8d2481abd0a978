"""The inputs of the number cases, in the words of CASES.md; their right values are literals in the tests."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cases import BASE_NS, IMPORTERS, CaseLake, Event, Job, Recording, Row, host, kernel, launch, marker, ns
from pyspark.sql import SparkSession

UUIDS = [f"GPU-{letter * 8}-0000-0000-0000-000000000000" for letter in "abcd"]
LANES: list[int | str] = [140589156634432, 140588800255680, 0, 1, "stream 7", "3239786240", 3239786240]
"""Case 7: thread ids as a file may hold them; the last two are one."""
STEPS_3 = [host(0, 3000, "ProfilerStep#0"), host(3000, 6000, "ProfilerStep#1"), host(6000, 9000, "ProfilerStep#2"),
           host(9000, 10_000, "ProfilerStep#3")]  # fmt: skip
CASE_3 = [*STEPS_3, *(kernel(10 * i, 10 * i + 10, name=f"k{i}") for i in range(1000))]


def case_1() -> bytes:
    names, shares = (b"k\x01", b"k\x02", b"k\x9f", "ké".encode()), (b"50", b"NaN", b"30", b"N/A")
    extras = (b"1", b"1", b"Infinity", b"1")
    rows = [
        b'{"ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": 7, "ts": %d, "dur": 10, "args": {"stream": 7,'
        b' "extra": %s, "est. achieved occupancy %%": %s}}' % (name, 100 + 10 * i, extras[i], part)
        for i, (name, part) in enumerate(zip(names, shares, strict=True))
    ]
    return b'{"traceEvents": [' + b",\n".join(rows) + b"]}"


def case_4() -> list[Event]:
    good = [kernel(0, 10), kernel(20, 30), kernel(40, 50)]
    return [
        *good,
        Event("kernel", "zero", 0, 0),
        Event("kernel", "sentinel", 9223372036854775808, 0),
        Event("kernel", "backwards", 1000, -10),
    ]


def clock_steps_back() -> Recording:
    """Case 4: a 1 Hz sampler whose wall clock steps back 2 s; it starts 2 s before the window."""
    walls = [-2, -1, 0, 1, 2, 3, 2, 3, 4, 5]
    samples = [_sample(ns(wall * 1_000_000), second, "GPU-a", second / 10) for second, wall in enumerate(walls)]
    return Recording([kernel(0, 5_000_000)], node="node-a", rank=0, uuids=["GPU-a"], samples=samples)


def _sample(at_ns: int, second: int, uuid: str, value: float) -> Row:
    return {
        "at_ns": at_ns, "monotonic_ns": second * 10**9, "entity_kind": "device", "entity_id": uuid,
        "metric": "gpu_util_ratio", "unit": "ratio", "value": value, "is_valid": True,
    }  # fmt: skip


def case_7(*, bare: bool) -> Recording:
    pid, times = 7168000000, ['"12.5"', *(str(12.5 + 20 * i) for i in range(1, 7))]
    rows = []
    for lane, at in zip(LANES, times, strict=True):
        tid = json.dumps(lane)
        rows += [
            f'{{"ph":"X","cat":"user_annotation","name":"a","pid":{pid},"tid":{tid},"ts":{at},"dur":10}}',
            f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":{tid},"ts":{at},"dur":10}}',
        ]
    rows.append(f'{{"ph":"s","cat":"ac2g","name":"f","id":1,"pid":{pid},"tid":3239786240,"ts":200}}')
    array = "[" + ",".join(rows) + "]"
    lanes = [7 if lane == "stream 7" else int(lane) for lane in LANES]
    events = [host(12.5 + 20 * i, 22.5 + 20 * i, "a", thread=lane, base=0, pid=pid) for i, lane in enumerate(lanes)]
    events += [kernel(12.5 + 20 * i, 22.5 + 20 * i, stream=lane, base=0) for i, lane in enumerate(lanes)]
    return Recording(events, text=(array if bare else f'{{"traceEvents": {array}}}').encode())


def case_13_steps() -> list[Event]:
    """32 steps of 50 launches; 1591 device events, all in steps 0 and 31."""
    events, number = [], 0
    for step in range(32):
        events.append(host(step * 10_000, step * 10_000 + 9_000, f"ProfilerStep#{step}"))
        for call in range(50):
            at, number = step * 10_000 + 100 * call + 1, number + 1
            events.append(launch(at, 5, number, "cudaGraphLaunch"))
            if step in (0, 31):
                nodes = 16 if call + 50 * (step == 31) < 91 else 15
                events += [kernel(at + 10 + 2 * i, at + 11 + 2 * i, number) for i in range(nodes)]
    return events


def case_16() -> list[Recording]:
    ranks = [0, 1, 1, 3]
    return [
        Recording(
            [host(i, 100 + i, "run"), launch(5 + i, 2, 1), kernel(10 + i, 60 + i, 1)],
            rank=rank, world_size=4, uuids=[UUIDS[i]],
        )
        for i, rank in enumerate(ranks)
    ]  # fmt: skip


def case_16_collectives() -> list[Recording]:
    """World of 4: files of ranks 0, 1, 1 (overlapping) and 3. Four all-reduces, for which rank 0 waits 30 us each."""
    recordings = []
    for number, rank in enumerate([0, 1, 1, 3]):
        late = 0 if rank == 0 else 30
        events = [host(0, 1000, "ProfilerStep#1")]
        for call in range(4):
            at = 100 + 200 * call + call * call
            events += [launch(at - 10, 2, call + 1), kernel(at + late, at + 50, call + 1, NCCL, stream=20 + number)]
        recordings.append(Recording(events, rank=rank, world_size=4, uuids=[UUIDS[number]]))
    return recordings


def case_16_sampler() -> Recording:
    """CUDA_VISIBLE_DEVICES=2,3: devices 0 and 1 of the process are the node's third and fourth."""
    samples = [
        _sample(ns(second * 1_000_000), second, uuid, share)
        for second in range(3)
        for uuid, share in zip(UUIDS, (0.1, 0.2, 0.3, 0.4), strict=True)
    ]
    events = [kernel(0, 4_000_000, device=0), kernel(0, 4_000_000, device=1)]
    return Recording(events, rank=0, node="node-a", uuids=UUIDS[2:], samples=samples)


GRAPH = "cudaGraphLaunch"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
CASES: dict[str, list[Recording]] = {
    "4": [Recording(case_4())],
    "5-hint": [Recording([kernel(1000, 1250, base=0)], header={"displayTimeUnit": "ns"})],
    "5-short": [Recording([kernel(100.7 + i, 100.9 + i, base=0) for i in range(1000)])],
    "7": [case_7(bare=True)],
    "10": [Recording([launch(0, 2, 42), kernel(10, 20, 42),
                      launch(1000, 2, 42, process=200), kernel(1010, 1020, 42, device=1, process=200)])],
    "10-files": [Recording([launch(at, 2, 42, process=1), kernel(at + 10, at + 20, 42)], rank=rank, world_size=2)
                 for rank, at in ((0, 0), (1, 1000))],
    "12": [Recording([launch(0, 5, 9, GRAPH), kernel(20, 30, 9), kernel(30, 40, 9), kernel(45, 55, 9),
                      launch(60, 4, 10), kernel(70, 80, 10)])],
    "13-graphs": [Recording([host(0, 100_000, "run"), *(launch(1000 * i, 5, i + 1, GRAPH) for i in range(100)),
                             *(kernel(10 + 300 * i, 310 + 300 * i, 1) for i in range(3))])],
    "13-steps": [Recording(case_13_steps())],
    "14": [Recording([host(90, 400, "ProfilerStep#1"), *(launch(100 * i, 5, i) for i in (1, 2, 3)),
                      kernel(60, 70, 1), kernel(230, 240, 2), kernel(330, 340, 3), kernel(10, 20, 4)])],
    "16": case_16(),
    "16-collectives": case_16_collectives(),
    "16-norank": [Recording([host(0, 100, "run"), kernel(10, 60)])],
    "18-streams": [Recording([host(0, 200, "run"), kernel(0, 100, stream=1), kernel(50, 150, stream=2),
                              kernel(100, 100, stream=1), kernel(150, 160, stream=2)])],
    "18-devices": [Recording([host(0, 100, "run"), *(kernel(0, 86, device=i, stream=17) for i in (1, 2, 3))],
                             node="node-a")],
    "19": [Recording([host(0, 500, "run"), kernel(0, 100, name="A"), kernel(100, 200, name=NCCL),
                      marker("sync", "Stream Sync", 100, 200), marker("annotation", "run", 0, 210),
                      marker("memop", "Memcpy HtoD (Pinned -> Device)", 200, 450), kernel(450, 500, name="B")])],
    "22": [Recording([host(0, 100, "ProfilerStep#5"), host(100, 200, "ProfilerStep#6"), host(0, 50, "fwd"),
                      launch(10, 2, 1), kernel(20, 30, 1), launch(60, 2, 2, thread=2), kernel(120, 180, 2),
                      marker("annotation", "ProfilerStep#5", 20, 30)])],
    "25-launches": [Recording([host(0, 500, "run"), *(launch(10 * i, 2, i + 1) for i in range(50))])],
    "25-cpu": [Recording([host(0, 500, "run"), *(Event("operator", "aten::mm", ns(10 * i), 5000, thread=1)
                                                 for i in range(50))])],
    "3": [Recording(CASE_3, kept=700)],
}  # fmt: skip
ONE_FORMAT = {
    "1": ("kineto", [Recording([], text=case_1())]),
    "7-object": ("kineto", [case_7(bare=False)]),
    "4-sampler": ("raw", [clock_steps_back()]),
    "16-sampler": ("raw", [case_16_sampler()]),
}
assert BASE_NS % 10**9 == 0


@functools.cache
def _tables(spark: SparkSession) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
    """The tables after one run over all cases, and after one more over the whole file of case 3."""
    with tempfile.TemporaryDirectory(prefix="tracelake-cases-") as folder:
        lake = CaseLake(Path(folder), spark)
        for name, recordings in CASES.items():
            lake.add(name, recordings)
        for name, (importer, recordings) in ONE_FORMAT.items():
            lake.add(name, recordings, [importer])
        first = lake.run()
        lake.add("3", [Recording(CASE_3)], supersedes=["0-cut-100"])
        return first, lake.run()


def job(spark: SparkSession, name: str, importer: str, *, later: bool = False) -> Job:
    return Job(f"case-{name}-{importer}", _tables(spark)[later])


def all_jobs(spark: SparkSession) -> Sequence[Job]:
    both = [job(spark, name, importer) for name in CASES for importer in IMPORTERS]
    return both + [job(spark, name, importer) for name, (importer, _) in ONE_FORMAT.items()]
