"""Idle by cause: what a gap is made of, by hand; test_idle_oracle.py walks through every nanosecond."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

US = 1_000
WINDOW = {"window_start_ns": 0, "window_end_ns": 200 * US}
D = [{"device_id": "d"}]


def ran(start: int, end: int, launch: int | None = None, called: int | None = None, **more: Any) -> Row:
    """A kernel in microseconds; `called` is the start of its launch."""
    row = {"event_id": start, "start_ns": start * US, "effective_end_ns": end * US, "end_ns": end * US}
    delay = None if called is None else (start - called) * US
    return {"device_id": "d", "stream_id": 7, "launch_id": launch, "launch_delay_ns": delay, **row, **more}


def moved(start: int, end: int, launch: int, called: int) -> Row:
    row = ran(start, end, launch, called)
    del row["effective_end_ns"]
    return {**row, "kind": "memcpy"}


def call(launch_id: int, start: int, thread: int = 1, **more: Any) -> Row:
    row = {"launch_id": launch_id, "start_ns": start * US, "end_ns": (start + 2) * US, "thread_id": thread}
    return {"api_name": "cudaLaunchKernel", **row, **more}


def host(text: str, start: int, end: int, thread: int = 1, **more: Any) -> Row:
    row = {"annotation_id": start * 1_000 + end, "name": text, "thread_id": thread}
    return {**row, "start_ns": start * US, "end_ns": end * US, "duration_ns": (end - start) * US, **more}


def step(occurrence: int, start: int, end: int) -> Row:
    return host("step", start, end, is_step=True, step_occurrence=occurrence)


def wait(start: int, end: int, thread: int | None = 1, **more: Any) -> Row:
    row = {"event_id": start, "kind": "stream_synchronize", "is_blocking": True, "thread_id": thread}
    return {**row, "start_ns": start * US, "end_ns": end * US, **more}


def marker(at: int, stream: int = 7) -> Row:
    return wait(at, at, None, kind="stream_wait_event", is_blocking=False, device_id="d", stream_id=stream)


def causes(scope: str, step: int | None = None, **idle_us: int) -> list[Row]:
    name = None if step is None else "step"
    rows = [{"scope": scope, "cause": cause, "idle_ns": idle_us[cause] * US} for cause in sorted(idle_us)]
    return [{**row, "step_name": name, "step_occurrence": step} for row in rows]


def gap(*given_: Row, expect: dict[str, int], **more: list[Row]) -> Story:
    """A story of a window of 200 us that is one bucket, since a longer one of no device stands beside it."""
    wide = {"source_id": "z", "window_start_ns": 1_000_000 * US, "window_end_ns": 1_024_000 * US}
    rows = [row for scope in ("job", "bucket", "window") for row in causes(scope, **expect)]
    return story(**({"sources": [WINDOW, wide], "devices": D, "kernels": list(given_)} | more), expect=rows)


STORIES: dict[str, Story] = {
    "before its launch the host was late, then comes launch latency, and the end is unknown": gap(
        ran(60, 180, 1, called=40), launches=[call(1, 40)],
        expect={"python_or_other": 40, "launch_latency": 20, "unknown": 20},
    ),
    "latency has a limit, what is behind it is unknown without a known wait": gap(
        ran(90, 200, 1, called=40), launches=[call(1, 40)],
        expect={"python_or_other": 40, "launch_latency": 30, "unknown": 20},
    ),
    "and a dependency where its stream waited for an event in the gap": gap(
        ran(90, 200, 1, called=40), launches=[call(1, 40)], syncs=[marker(85)],
        expect={"python_or_other": 40, "launch_latency": 30, "dependency": 20},
    ),
    "another stream's wait is no reason": gap(
        ran(90, 200, 1, called=40), launches=[call(1, 40)], syncs=[marker(85, stream=8)],
        expect={"python_or_other": 40, "launch_latency": 30, "unknown": 20},
    ),
    "a kernel that was queued before the gap": gap(
        ran(0, 50, 1, called=0), ran(80, 200, 2, called=10), launches=[call(1, 0), call(2, 10)],
        expect={"queued": 30},
    ),
    "a queued kernel of a stream that was free waited for the stream that was not": gap(
        ran(0, 50, 1, called=0), ran(80, 200, 2, called=10, stream_id=8), launches=[call(1, 0), call(2, 10)],
        expect={"dependency": 30},
    ),
    "a graph's later kernels were queued with its first": gap(
        ran(0, 50, 1, called=0), ran(80, 200, 1), launches=[call(1, 0)], expect={"queued": 30},
    ),
    "an orphan ends a gap that nobody knows": gap(ran(50, 200), expect={"unknown": 50}),
    "a kernel before its launch makes its host late for the whole gap": gap(
        ran(50, 200, 1, flags=["before_launch"]), launches=[call(1, 70)], expect={"python_or_other": 50},
    ),
    "what the launching thread did, innermost known activity first": gap(
        ran(100, 200, 1, called=100), launches=[call(1, 100)],
        annotations=[host("epoch", 0, 90), host("enumerate(DataLoader)#next", 5, 40), host("collate", 10, 20),
                     host("save_checkpoint", 50, 80), host("torch.compile", 55, 60)],
        syncs=[wait(30, 45)],
        expect={"data_loading": 25, "synchronize": 15, "checkpoint": 25, "compile": 5, "python_or_other": 30},
    ),
    "what other threads did does not count": gap(
        ran(100, 200, 1, called=100), launches=[call(1, 100)],
        annotations=[host("dataloader", 0, 90, thread=2)], syncs=[wait(30, 45, thread=3), wait(50, 55, thread=None)],
        expect={"python_or_other": 100},
    ),
    "each gap asks the thread of its own launch": gap(
        ran(40, 50, 1, called=40), ran(100, 200, 2, called=100), launches=[call(1, 40), call(2, 100, thread=2)],
        annotations=[host("dataloader", 0, 90), host("all_reduce", 45, 95, thread=2)],
        expect={"data_loading": 40, "communication_host": 45, "python_or_other": 5},
    ),
    "a copying call holds its thread": gap(
        ran(100, 200, 2, called=100),
        launches=[call(1, 20, api_name="cudaMemcpyAsync", end_ns=60 * US), call(2, 100)],
        expect={"copy": 40, "python_or_other": 60},
    ),
    "copies end gaps as kernels do, events without length end none": gap(
        ran(30, 30, 9, called=30), memops=[moved(50, 200, 1, called=50)],
        launches=[call(9, 30), call(1, 50)], expect={"python_or_other": 50},
    ),
    "a device without any activity is idle for an unknown reason": gap(expect={"unknown": 200}),
    "gaps are clipped to steps and buckets": story(
        sources=[WINDOW | {"window_end_ns": 24_000 * US}], devices=D,
        kernels=[ran(300, 24_000, 1, called=280)], launches=[call(1, 280)],
        annotations=[step(0, 50, 250), step(1, 270, 290), host("dataloader", 100, 230)],
        expect=[
            *causes("job", data_loading=130, launch_latency=20, python_or_other=150),
            *causes("bucket", data_loading=100, python_or_other=100),
            *causes("bucket", data_loading=30, launch_latency=20, python_or_other=50),
            *causes("step", 0, data_loading=130, python_or_other=70),
            *causes("step", 1, launch_latency=10, python_or_other=10),
            *causes("window", data_loading=130, launch_latency=20, python_or_other=150),
        ],
    ),
    "what the ledger withholds has no causes": story(
        sources=[WINDOW | {"gpu_reason": "low_launch_coverage"}, WINDOW | {"source_id": "t"}],
        devices=[*D, {"device_id": "d", "source_id": "t"}],
        kernels=[ran(50, 200), ran(80, 200, source_id="t")],
        annotations=[step(0, 0, 100) | {"source_id": "t"}, step(1, 100, 300) | {"source_id": "t"}],
        step_launches=[{"source_id": "t", "step_name": "step", "step_occurrence": 0, "is_uncovered": True}],
        # 200 us in buckets of 2 us.
        expect=[{**row, "source_id": None} for row in causes("job", unknown=80)]
        + [row for _ in range(40) for row in causes("bucket", unknown=2)]
        + causes("window", unknown=80),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.idle_causes", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_idle_causes(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
