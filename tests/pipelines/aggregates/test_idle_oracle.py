"""Idle by cause against an oracle that walks through every nanosecond, and against the device ledger."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from expect import SHIFT_NS, Row, Rows, small_data
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.aggregates.device_activity import device_activity
from tracelake.pipelines.aggregates.device_ledger import device_ledger
from tracelake.pipelines.aggregates.idle_causes import idle_causes
from tracelake.pipelines.functions.intervals import SLICE_NS
from tracelake.pipelines.lake import Lake
from tracelake.pipelines.parameters import Parameters
from tracelake.recorder.simulate import Truth
from tracelake.schemas.catalog import table

EXAMPLES = 120
LATENCY = 3
LENGTH = 24
SMALL = Parameters(launch_latency_ns=LATENCY, time_bucket_most_count=4)
BASES = (0, SLICE_NS - 11, SHIFT_NS)
NAMES = {"dataloader": "data_loading", "save_checkpoint": "checkpoint", "epoch": None}


class Example:
    """A window of 24 ns of one device: two streams, two threads, and everything that can happen in it."""

    def __init__(self, rng: random.Random, job_id: str) -> None:
        self.job_id, self.base = job_id, rng.choice(BASES)
        spans = [sorted(rng.choices(range(-3, LENGTH + 3), k=2)) for _ in range(40)]
        self.calls = [self.row(n, *spans[n], thread_id=rng.choice((1, 2, None))) for n in range(6)]
        for number, row in enumerate(self.calls):
            row |= {"launch_id": number, "api_name": rng.choice(("cudaLaunchKernel", "cudaMemcpyAsync"))}
        self.kernels = [self.event(rng, 6 + n, *sorted((s, min(e, s + 4)))) for n, (s, e) in enumerate(spans[6:12])]
        self.waits = [self.row(n, *spans[12 + n], is_blocking=True, thread_id=rng.choice((1, 2))) for n in range(2)]
        self.markers = [
            self.row(9 + n, spans[14 + n][0], spans[14 + n][0], device_id="d", stream_id=rng.choice((7, 8)),
                     kind="stream_wait_event") for n in range(3)
        ]  # fmt: skip
        self.ranges: list[Row] = []
        for number, (start, end) in enumerate(spans[17:23]):
            row = self.row(number, start, end, name=rng.choice([*NAMES]), thread_id=rng.choice((1, 2)))
            crosses = any(r["thread_id"] == row["thread_id"] and _crosses(r, row) for r in self.ranges)
            self.ranges += [] if crosses or start == end else [row]
        edges = sorted(rng.sample(range(-1, LENGTH + 2), 4))
        self.steps = [self.row(90 + n, *edges[2 * n : 2 * n + 2], name="step", thread_id=1) for n in range(2)]
        for number, row in enumerate(self.steps):
            row |= {"is_step": True, "step_occurrence": number}

    def row(self, number: int, start: int, end: int, **more: Any) -> Row:
        at = {"start_ns": start + self.base, "end_ns": end + self.base}
        return {"job_id": self.job_id, "source_id": "s", "number": number, **at, **more}

    def event(self, rng: random.Random, number: int, start: int, end: int) -> Row:
        call = rng.choice([*self.calls, None])
        delay = None if call is None else start + self.base - call["start_ns"]
        row = {"launch_id": call and call["launch_id"], "launch_delay_ns": None, "device_id": "d"}
        if delay is not None and rng.random() < 0.8:  # the others are later kernels of a graph
            row |= {"launch_delay_ns": delay} if delay >= 0 else {"flags": ["before_launch"]}
        return self.row(number, start, end, **row, stream_id=rng.choice((7, 8)), effective_end_ns=end + self.base)

    def gaps(self) -> list[tuple[int, int]]:
        idle = [at for at in self.window() if not any(_holds(event, at) for event in self.kernels)]
        starts = [at for at in idle if at - 1 not in idle]
        return [(at, next(end for end in range(at, at + LENGTH + 1) if end not in idle)) for at in starts]

    def window(self) -> range:
        return range(self.base, self.base + LENGTH)

    def at(self) -> dict[int, str]:
        """The cause of each idle nanosecond."""
        found = {}
        for start, end in self.gaps():
            enders = [row for row in self.kernels if row["start_ns"] == end < row["end_ns"] and end in self.window()]
            found |= (
                self.of_gap(start, end, min(enders, key=_first))
                if enders
                else dict.fromkeys(range(start, end), "unknown")
            )
        return found

    def of_gap(self, start: int, end: int, event: Row) -> dict[int, str]:
        if event["launch_id"] is None:
            return dict.fromkeys(range(start, end), "unknown")
        is_early, delay = bool(event.get("flags")), event["launch_delay_ns"]
        called = end if is_early else start - 1 if delay is None else event["start_ns"] - delay
        before = [row for row in self.kernels if _holds(row, start - 1) and row["end_ns"] == start]
        own = {row["stream_id"] for row in before if start - 1 in self.window()}
        waited = any(m["stream_id"] == event["stream_id"] and start <= m["start_ns"] <= end for m in self.markers)
        held = called < start and bool(own) and event["stream_id"] not in own
        rest = "dependency" if waited or held else "queued" if called < start else "unknown"
        thread = self.calls[event["launch_id"]]["thread_id"]
        return {
            at: self.host(thread, at)
            if at < called
            else "launch_latency"
            if start <= called and at < called + LATENCY
            else rest
            for at in range(start, end)
        }

    def host(self, thread: int | None, at: int) -> str:
        def mine(rows: list[Row]) -> list[Row]:
            return [row for row in rows if thread is not None and row["thread_id"] == thread and _holds(row, at)]

        if mine(self.waits):
            return "synchronize"
        if any("Memcpy" in row["api_name"] for row in mine(self.calls)):
            return "copy"
        known = [row for row in mine(self.ranges) if NAMES[row["name"]]]
        inner = max(known, key=lambda row: (row["start_ns"], -row["end_ns"], row["number"]), default=None)
        return str(NAMES[inner["name"]]) if inner else "python_or_other"


def _crosses(a: Row, b: Row) -> bool:
    first, second = sorted((a, b), key=lambda row: (row["start_ns"], -row["end_ns"]))
    return bool(first["start_ns"] < second["start_ns"] < first["end_ns"] < second["end_ns"])


def _holds(row: Row, at: int) -> bool:
    return bool(row["start_ns"] <= at < row["end_ns"])


def _first(event: Row) -> tuple[bool, int, int]:
    delay = event["launch_delay_ns"]
    called = event["start_ns"] if event.get("flags") else None if delay is None else event["start_ns"] - delay
    return (called is None, called or 0, event["number"])


def _wanted(example: Example) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for at, cause in example.at().items():
        bucket = example.base + (at - example.base) // 10 * 10
        found.update(
            {("job", None, None, cause): 1, ("window", None, None, cause): 1, ("bucket", None, bucket, cause): 1}
        )
        for row in example.steps:
            if _holds(row, at) and row["end_ns"] <= example.base + LENGTH:
                found["step", row["step_occurrence"], None, cause] += 1
    return found


def _frames(rows: Rows, examples: list[Example]) -> dict[str, Any]:
    def made(name: str, given_: list[Row], **renamed: str) -> Any:
        declared, listed = table(name), []
        for row in given_:
            full = row | {new: row["number"] for new in renamed.values() if new not in row}
            full["duration_ns"] = row["end_ns"] - row["start_ns"]
            listed.append({key: value for key, value in full.items() if key in declared.column_names})
        return rows(declared, *listed)

    jobs = [{"job_id": each.job_id, "source_id": "s"} for each in examples]
    bounds = [{"window_start_ns": each.base, "window_end_ns": each.base + LENGTH} for each in examples]
    host = [row | {"side": "host", "is_closed": True} for each in examples for row in (*each.ranges, *each.steps)]
    return {
        "sources": rows(table("normalized.sources"), *[a | b for a, b in zip(jobs, bounds, strict=True)]),
        "devices": rows(table("normalized.devices"), *[job | {"device_id": "d"} for job in jobs]),
        "kernels": made("normalized.kernels", [r for e in examples for r in e.kernels], number="event_id"),
        "memops": rows(table("normalized.memops")),
        "launches": made("normalized.launches", [r for e in examples for r in e.calls]),
        "syncs": made("normalized.syncs", [r for e in examples for r in (*e.waits, *e.markers)], number="event_id"),
        "annotations": made("normalized.annotations", host, number="annotation_id"),
        "step_launches": rows(table("aggregates.step_launches")),
    }


def test_causes_are_those_of_each_nanosecond_and_sum_to_the_ledgers_idle(rows: Rows) -> None:
    rng = random.Random(6)
    examples = [Example(rng, str(number)) for number in range(EXAMPLES)]
    frames = _frames(rows, examples)
    with small_data(frames["sources"].sparkSession):
        found: dict[str, Counter[tuple[Any, ...]]] = {each.job_id: Counter() for each in examples}
        for row in idle_causes(**frames, parameters=SMALL).collect():
            found[row["job_id"]][row["scope"], row["step_occurrence"], row["bucket_start_ns"], row["cause"]] += row[
                "idle_ns"
            ]
        names = ("sources", "devices", "kernels", "memops", "syncs", "annotations")
        activity = device_activity(*[frames[name] for name in names], parameters=SMALL)
        ledger = device_ledger(
            *[frames[name] for name in ("sources", "devices", "annotations", "step_launches")], activity, SMALL
        ).collect()
    for each in examples:
        assert found[each.job_id] == _wanted(each), vars(each)
    sums: Counter[tuple[Any, ...]] = Counter()
    for job_id, causes_ in found.items():
        for (scope, step_, bucket, _), idle in causes_.items():
            sums[job_id, scope, step_, bucket] += idle
    idle_ = {(r["job_id"], r["scope"], r["step_occurrence"], r["bucket_start_ns"]): r["idle_ns"] for r in ledger}
    assert sums == Counter({key: value for key, value in idle_.items() if value})


def test_causes_sum_to_the_idle_time_of_simulated_jobs(small_fleet: tuple[Lake, Truth], spark: SparkSession) -> None:
    lake, truth = small_fleet
    key = ["job_id", "attempt", "source_id", "device_id", "scope", "step_name", "step_occurrence", "bucket_start_ns"]
    ledger = lake.read(spark, "aggregates.device_ledger").filter("idle_ns > 0").select(*key, "idle_ns")
    causes = lake.read(spark, "aggregates.idle_causes").groupBy(*key).agg(F.sum("idle_ns").alias("idle_ns"))
    assert ledger.exceptAll(causes).union(causes.exceptAll(ledger)).isEmpty()
    windows = {(row["job_id"], row["source_id"]): row["idle_ns"] for row in causes.filter("scope = 'window'").collect()}
    for job in truth.jobs:
        for device in job.devices:
            assert device.idle_ns in (None, windows[job.job_id, device.source_id])
