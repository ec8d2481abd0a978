"""Kernels: impossible ends, launches, delays, devices and precision (METRICS "Device ledger", "Launches")."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story

S = 1_000_000_000
GEMM_TF32 = "ampere_sgemm_tf32_128x64_tn"
UUIDS = '[{"index": 0, "uuid": "GPU-a"}, {"index": 1, "uuid": "GPU-b"}]'


def ran(event_id: int, start: int, end: int, **more: Any) -> Row:
    row = {"event_id": event_id, "start_ns": start, "duration_ns": end - start, "correlation_id": event_id}
    return {"name": "k", "device_index": 0, "stream_id": 7, **row, **more}


def call(launch_id: int, start: int, end: int, first: int | None = None, **more: Any) -> Row:
    row = {"launch_id": launch_id, "correlation_id": launch_id, "start_ns": start, "end_ns": end}
    return {**row, "first_event_start_ns": first, **more}


def ends(event_id: int, end: int, effective_end: int, duration: int, *flags: str) -> Row:
    row = {"event_id": event_id, "end_ns": end, "effective_end_ns": effective_end, "duration_ns": duration}
    return {**row, "flags": list(flags)}


CALLS = [call(i, 1, 2) for i in range(1, 6)]

OVERRUN = {
    "a kernel that contains a later one of its stream ends where that one starts": story(
        kernel=[ran(1, 10, 100), ran(2, 40, 60)],
        launches=CALLS,
        expect=[ends(1, 100, 40, 30, "overrun"), ends(2, 60, 60, 20)],
    ),
    "a contained kernel that ends at the same instant is still contained": story(
        kernel=[ran(1, 10, 100), ran(2, 40, 100)],
        launches=CALLS,
        expect=[ends(1, 100, 40, 30, "overrun"), ends(2, 100, 100, 60)],
    ),
    "partial overlap on a stream is legal": story(
        kernel=[ran(1, 10, 50), ran(2, 40, 60)], launches=CALLS, expect=[ends(1, 50, 50, 40), ends(2, 60, 60, 20)]
    ),
    "kernels that start together are not later than each other": story(
        kernel=[ran(1, 10, 100), ran(2, 10, 60)], launches=CALLS, expect=[ends(1, 100, 100, 90), ends(2, 60, 60, 50)]
    ),
    "other streams and other devices contain nothing": story(
        kernel=[ran(1, 10, 100), ran(2, 20, 30, stream_id=8), ran(3, 40, 50, device_index=1)],
        launches=CALLS,
        expect=[ends(1, 100, 100, 90), ends(2, 30, 30, 10), ends(3, 50, 50, 10)],
    ),
    "other processes contain nothing": story(
        source=[{"source_id": "s", "node_id": "n"}, {"source_id": "t", "node_id": "n"}],
        kernel=[ran(1, 10, 100), ran(1, 40, 60, source_id="t")],
        launches=[*CALLS, call(1, 1, 2, source_id="t")],
        expect=[ends(1, 100, 100, 90), ends(1, 60, 60, 20)],
    ),
    "kernels of one graph launch may lie inside each other": story(
        kernel=[ran(1, 10, 100), ran(2, 40, 60, correlation_id=1)],
        launches=CALLS,
        expect=[ends(1, 100, 100, 90), ends(2, 60, 60, 20)],
    ),
    "a kernel without length inside another proves nothing": story(
        kernel=[ran(1, 10, 100), ran(2, 40, 40)], launches=CALLS, expect=[ends(1, 100, 100, 90), ends(2, 40, 40, 0)]
    ),
    "a kernel without length does not hide the one behind it": story(
        kernel=[ran(1, 10, 100), ran(2, 60, 70), ran(3, 60, 60)],
        launches=CALLS,
        expect=[ends(1, 100, 60, 50, "overrun"), ends(2, 70, 70, 10), ends(3, 60, 60, 0)],
    ),
    "each of a chain of impossible kernels is cut": story(
        kernel=[ran(1, 10, 100), ran(2, 20, 90), ran(3, 30, 40)],
        launches=CALLS,
        expect=[ends(1, 100, 20, 10, "overrun"), ends(2, 90, 30, 10, "overrun"), ends(3, 40, 40, 10)],
    ),
    "an impossible end is seen many slices of time later": story(
        kernel=[ran(1, 4 * S, 60 * S), ran(2, 55 * S, 56 * S), ran(3, 4 * S, 5 * S, stream_id=8)],
        launches=CALLS,
        expect=[
            ends(1, 60 * S, 55 * S, 51 * S, "overrun"),
            ends(2, 56 * S, 56 * S, S),
            ends(3, 5 * S, 5 * S, S),
        ],
    ),
    "a contained kernel is seen behind one that overlaps partly": story(
        kernel=[ran(1, 10, 100), ran(2, 50, 150), ran(3, 60, 70)],
        launches=CALLS,
        expect=[ends(1, 100, 50, 40, "overrun"), ends(2, 150, 60, 10, "overrun"), ends(3, 70, 70, 10)],
    ),
    "of two that start together the contained one counts": story(
        kernel=[ran(1, 10, 100), ran(2, 40, 60), ran(3, 40, 150)],
        launches=CALLS,
        expect=[ends(1, 100, 40, 30, "overrun"), ends(2, 60, 60, 20), ends(3, 150, 150, 110)],
    ),
    "a contained kernel of another launch is seen behind one of the same launch": story(
        kernel=[ran(1, 10, 100), ran(2, 20, 30, correlation_id=1), ran(3, 50, 60)],
        launches=CALLS,
        expect=[{"event_id": 1, "flags": ["overrun"]}, ends(2, 30, 30, 10), ends(3, 60, 60, 10)],
    ),
    "kernels of a stream that the input does not name share it": story(
        kernel=[ran(1, 10, 100, stream_id=None), ran(2, 40, 60, stream_id=None), ran(3, 50, 55)],
        launches=CALLS,
        expect=[ends(1, 100, 40, 30, "overrun"), ends(2, 60, 60, 20), ends(3, 55, 55, 5)],
    ),
}


def delays(event_id: int, launch: int | None, delay: int | None, queue: int | None, *flags: str) -> Row:
    row = {"event_id": event_id, "launch_id": launch, "launch_delay_ns": delay, "queue_delay_ns": queue}
    return {**row, "flags": list(flags)}


LAUNCHED = {
    "the delays count from the launch's start and from its end": story(
        kernel=[ran(1, 30, 40)], launches=[call(1, 10, 15, 30)], expect=[delays(1, 1, 20, 15)]
    ),
    "a kernel that starts while its launch still runs waited in no queue": story(
        kernel=[ran(1, 12, 40)], launches=[call(1, 10, 15, 12)], expect=[delays(1, 1, 2, 0)]
    ),
    "only the first kernel of a graph launch carries its delay": story(
        kernel=[ran(1, 50, 60, correlation_id=9), ran(2, 30, 40, correlation_id=9), ran(3, 70, 80, correlation_id=9)],
        launches=[call(9, 10, 15, 30)],
        expect=[delays(1, 9, None, None), delays(2, 9, 20, 15), delays(3, 9, None, None)],
    ),
    "of two first kernels at one instant one carries the delay": story(
        kernel=[ran(1, 30, 40, correlation_id=9), ran(2, 30, 40, correlation_id=9, stream_id=8)],
        launches=[call(9, 10, 15, 30)],
        expect=[delays(1, 9, 20, 15), delays(2, 9, None, None)],
    ),
    "a kernel behind its launch's first copy carries no delay": story(
        kernel=[ran(1, 30, 40)], launches=[call(1, 10, 15, 20)], expect=[delays(1, 1, None, None)]
    ),
    "a kernel before its launch is flagged and has no delay": story(
        kernel=[ran(1, 7, 40)], launches=[call(1, 10, 15, 7)], expect=[delays(1, 1, None, None, "before_launch")]
    ),
    "a kernel at its launch's start has a delay of 0": story(
        kernel=[ran(1, 10, 40)], launches=[call(1, 10, 15, 10)], expect=[delays(1, 1, 0, 0)]
    ),
    "a kernel without a launch is an orphan and stays": story(
        kernel=[ran(1, 30, 40)], launches=[call(2, 10, 15)], expect=[delays(1, None, None, None, "orphan")]
    ),
    "ids of 0, below 0 and none join nothing": story(
        kernel=[
            ran(1, 30, 40, correlation_id=0),
            ran(2, 50, 60, correlation_id=-3),
            ran(3, 70, 80, correlation_id=None),
        ],
        launches=[
            call(1, 10, 15, correlation_id=0),
            call(2, 10, 15, correlation_id=-3),
            call(3, 1, 2, correlation_id=None),
        ],
        expect=[delays(i, None, None, None, "orphan") for i in (1, 2, 3)],
    ),
    "equal ids of two processes never meet": story(
        source=[{"source_id": "s"}, {"source_id": "t"}],
        kernel=[ran(1, 30, 40, correlation_id=5), ran(1, 30, 40, correlation_id=5, source_id="t")],
        launches=[call(8, 10, 15, 30, correlation_id=5)],
        expect=[delays(1, 8, 20, 15), delays(1, None, None, None, "orphan")],
    ),
    "an id that comes round again means the latest launch before the kernel": story(
        kernel=[ran(1, 30, 40, correlation_id=5), ran(2, 130, 140, correlation_id=5)],
        launches=[call(1, 10, 15, 30, correlation_id=5), call(2, 110, 115, 130, correlation_id=5)],
        expect=[delays(1, 1, 20, 15), delays(2, 2, 20, 15)],
    ),
    "the step and annotation are those of the launch, however late the kernel runs": story(
        kernel=[ran(1, 900, 950)],
        launches=[call(1, 10, 15, 900, step_name="step", step_occurrence=3, annotation_id=11)],
        expect=[{"step_name": "step", "step_occurrence": 3, "annotation_id": 11, "launch_delay_ns": 890}],
    ),
}


def device(title_source: str, index: int | None, expected: str, **source: Any) -> Story:
    listed = {"source_id": title_source, **source}
    return story(
        source=[listed],
        kernel=[ran(1, 10, 20, device_index=index, source_id=title_source)],
        expect=[{"device_id": expected, "node_id": source.get("node_id"), "rank": source.get("rank")}],
    )


DEVICES = {
    "a device is its UUID, whatever node and rank say": device("s", 1, "GPU-b", devices=UUIDS, node_id="n", rank=3),
    "without UUID a device is node and index": device("s", 1, "n/gpu1", node_id="n", rank=3),
    "an index that the list leaves out is node and index": device("s", 2, "n/gpu2", devices=UUIDS, node_id="n"),
    "without UUID and node a device is rank and index": device("s", 0, "rank3/gpu0", rank=3),
    "without anything else a device is source and index": device("0123456789abcdef-2", 0, "0123456789ab-2/gpu0"),
    "GPU 0 of two ranks are two devices": story(
        source=[{"source_id": "s", "rank": 0}, {"source_id": "t", "rank": 1}],
        kernel=[ran(1, 10, 20), ran(1, 10, 20, source_id="t")],
        expect=[{"device_id": "rank0/gpu0"}, {"device_id": "rank1/gpu0"}],
    ),
    "a window that opened and closed is one window": story(
        source=[{"phase": "open", "rank": None}, {"phase": "close", "rank": 4}],
        kernel=[ran(1, 10, 20)],
        expect=[{"event_id": 1, "rank": 4, "device_id": "rank4/gpu0"}],
    ),
}


def typed(name: str, operator: str | None, collective: str | None, precision: str, source: str | None) -> Story:
    operators = [{"launch_id": 1, "name": "aten::mm", "dtype": operator}] if operator is not None else []
    expect: Row = {"precision": precision, "operator_name": "aten::mm" if operators else None}
    return story(
        kernel=[ran(1, 10, 20, name=name, dtype=collective)],
        launches=CALLS,
        operators=operators,
        expect=[expect | ({"precision_source": source} if source else {})],
    )


PRECISION = {
    "a collective's own type is nearer than the operator around it": typed(
        "k", "float", "BFloat16", "bf16", "collective"
    ),
    "the operator's type is nearer than the name": typed(GEMM_TF32, "c10::Half", None, "fp16", "operator"),
    "a name that says tf32 refines an fp32 operand": typed(GEMM_TF32, "float", None, "tf32", None),
    "a name alone is evidence too": typed(GEMM_TF32, None, None, "tf32", "name"),
    "an operator whose type is not the math's leaves it to the name": typed(
        GEMM_TF32, "long int", None, "tf32", "name"
    ),
    "without evidence the precision is unknown, not fp32": typed("mystery", None, None, "unknown", "none"),
    "8-bit floats count as fp8": typed("k", "c10::Float8_e4m3fn", None, "fp8", "operator"),
}

STORIES = {**OVERRUN, **LAUNCHED, **DEVICES, **PRECISION}


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.kernels", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_kernels(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
