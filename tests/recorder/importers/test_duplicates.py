"""Exact copies of an event inside one file are kept once and counted; what only looks alike is kept (case 40)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelake.recorder import segments
from tracelake.recorder.importers import Imported, ImportOptions, import_one
from tracelake.recorder.importers.duplicates import copies
from tracelake.schemas.manifest import manifests, raw_root

Event = dict[str, Any]


def kernel(ts: float, correlation: int, **more: Any) -> Event:
    args = {"device": 0, "stream": 7, "correlation": correlation, "grid": [1, 1, 1], "block": [32, 1, 1]}
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": ts, "dur": 5, "args": args, **more}


def launch(ts: float, correlation: int) -> Event:
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": ts, "dur": 2,
            "args": {"correlation": correlation}}  # fmt: skip


def note(ts: float, name: str) -> Event:
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 9, "tid": 9, "ts": ts, "dur": 8, "args": {}}


def imported(tmp_path: Path, events: list[Event]) -> tuple[dict[str, int], dict[str, int]]:
    """(rows by raw kind, counts of the source)."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    outcome = import_one(path, tmp_path / "lake", ImportOptions("job"))
    assert isinstance(outcome, Imported)
    ((_, manifest),) = manifests(raw_root(tmp_path / "lake"))
    rows: dict[str, int] = {}
    for segment in manifest.segments:
        rows[segment.kind] = rows.get(segment.kind, 0) + segment.rows
        pq.read_table(raw_root(tmp_path / "lake") / segment.path)
    return rows, dict(manifest.rows)


def test_an_event_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    events = [launch(0, 1), kernel(10, 1), note(0, "step_1"), launch(20, 2), kernel(30, 2), kernel(10, 1), launch(0, 1)]
    rows, counts = imported(tmp_path, events)
    assert (rows["kernel"], rows["launch"], rows["annotation"]) == (2, 2, 1)
    assert counts == {"read": 7, "stored": 5, "quarantined": 0, "deduplicated": 2, "skipped": 0}


@pytest.mark.parametrize(
    "other",
    [
        kernel(10, 1, name="other"),
        kernel(10, 1, dur=6),
        kernel(11, 1),
        kernel(10, 2),
        {**kernel(10, 1), "args": {**kernel(10, 1)["args"], "stream": 8}},
    ],
)
def test_events_that_differ_in_anything_are_both_kept(tmp_path: Path, other: Event) -> None:
    """A graph launch starts many kernels under one id; on two streams even at one moment."""
    rows, counts = imported(tmp_path, [launch(0, 1), kernel(10, 1), other])
    assert (rows["kernel"], counts["deduplicated"]) == (2, 0)


def test_ranges_and_events_without_an_id_may_repeat(tmp_path: Path) -> None:
    """Whole microseconds cannot tell a recursion's ranges apart, and two of them are two."""
    rows, counts = imported(tmp_path, [note(0, "fib"), note(0, "fib"), kernel(10, 0), kernel(10, 0)])
    assert (rows["annotation"], rows["kernel"], counts["deduplicated"]) == (2, 2, 0)


def test_copies_in_other_segments_are_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 3)
    events = [kernel(10 * i, i + 1) for i in range(10)]
    rows, counts = imported(tmp_path, [launch(0, 1), *events, *events])
    assert (rows["kernel"], counts["deduplicated"]) == (10, 10)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(-1, 2), st.sampled_from("ab")), max_size=40)
)
def test_copies_are_those_that_a_set_would_refuse(values: list[tuple[int, int, int, str]]) -> None:
    rows = [
        {"event_id": i, "start_ns": s, "duration_ns": d, "correlation_id": c, "name": n}
        for i, (s, d, c, n) in enumerate(values)
    ]
    schema = pa.schema([(name, pa.int64()) for name in ("event_id", "start_ns", "duration_ns", "correlation_id")])
    table = pa.Table.from_pylist(rows, schema.append(pa.field("name", pa.string())))
    seen, expected = set(), []
    for i, value in enumerate(values):
        if value[2] > 0:
            if value in seen:
                expected.append(i)
            seen.add(value)
    assert copies(lambda: [table[:7], table[7:]]).to_pylist() == expected
