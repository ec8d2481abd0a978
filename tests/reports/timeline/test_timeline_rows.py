"""From rows to tracks, bytes and Perfetto's format: nothing lost, nothing that overlaps in a lane, a page that fits."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import zlib
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import sample_timeline
from sample_timeline import MS, START, US

from tracelake.reports.timeline.data import EventRow
from tracelake.reports.timeline.encode import MAX_NAMES, name_table, payload
from tracelake.reports.timeline.page import timeline_page
from tracelake.reports.timeline.perfetto import perfetto
from tracelake.reports.timeline.read import MAX_BLOCKS, MAX_EVENTS, allowance
from tracelake.reports.timeline.tree import MAX_LANES, lanes, nested_lanes, tracks


def test_the_tree_is_node_process_device_stream_and_thread() -> None:
    tree = tracks(sample_timeline.rows())
    shown = [(t.kind, t.title, t.note) for t in tree if not t.id.startswith(("p0", "p1", "p3"))]
    assert shown == [
        ("node", "node-0", "node"),
        ("counter", "CPU, average", "7\u00a0samples"),
        ("counter", "memory used", "7\u00a0samples"),
        ("sum", "GPUs, sum of utilization", "2\u00a0devices"),
        ("node", "node-1", "node"),
        ("counter", "CPU", "not sampled"),
        ("sum", "GPUs, sum of utilization", "2\u00a0devices"),
        ("process", "process, rank 2", "pid 9002"),
        ("device", "GPU 0", "H100 80GB HBM3"),
        ("stream", "stream 7", "compute"),
        ("stream", "stream 20", "communication"),
        ("stream", "stream 24", "memory"),
        ("thread", "main thread", "annotations"),
        ("launches", "launches", "runtime calls"),
        ("thread", "thread 4790", "annotations"),
        ("launches", "launches", "runtime calls"),
    ]
    assert [t.title for t in tree if t.kind == "process" and t.is_open] == ["process, rank 2"]
    assert {t.parent for t in tree} <= {"", *(t.id for t in tree)}


def test_every_event_has_one_place() -> None:
    rows = sample_timeline.rows()
    placed = Counter(e for t in tracks(rows) for lane in t.lanes for e in lane)
    assert placed == Counter(rows.events)


def test_lanes_do_not_overlap_until_there_are_too_many() -> None:
    rng = random.Random(3)
    starts = [rng.randrange(1_000) for _ in range(300)]
    events = [replace(_EVENT, start_ns=s, end_ns=s + rng.randrange(6)) for s in starts]
    dealt = lanes(events)
    assert len(dealt) == MAX_LANES
    assert Counter(e for lane in dealt for e in lane) == Counter(events)
    for lane in dealt[:-1]:
        assert all(a.end_ns <= b.start_ns for a, b in pairwise(lane))


_EVENT = EventRow("s0", "GPU-0", 7, None, "compute", "k", None, None, 0, 0)


def test_inferred_steps_lie_in_a_lane_of_their_own() -> None:
    def host(name: str, start: int, end: int, depth: int = 0) -> EventRow:
        kind = "step" if name.startswith("inferred") else "annotation"
        return replace(_EVENT, kind=kind, name=name, start_ns=start, end_ns=end, depth=depth)

    steps = [host("inferred_step_0", 0, 10), host("inferred_step_1", 10, 20)]
    epoch, forward = host("epoch", 5, 30), host("forward", 8, 12, 1)
    assert nested_lanes([epoch, *steps, forward]) == (tuple(steps), (epoch,), (forward,))
    assert nested_lanes([epoch, forward]) == ((epoch,), (forward,))


def test_numbers_come_back_from_their_bytes() -> None:
    rows = sample_timeline.rows()
    tree = tracks(rows)
    head, columns = _decoded(payload(rows, tree))
    expected = [e for t in tree for lane in t.lanes for e in lane]
    assert [c[0] for c in columns] == [e.start_ns - rows.window.start_ns for e in expected]
    assert [c[1] for c in columns] == [e.end_ns - e.start_ns for e in expected]
    assert [head["names"][c[2]][1] for c in columns] == [e.name for e in expected]
    assert [c[5] - 1 for c in columns] == [-1 if e.bytes is None else e.bytes for e in expected]
    for event, column in zip(expected, columns, strict=True):
        launch = expected[column[3] - 1] if column[3] else None
        if event.kind in ("compute", "communication", "memory"):
            assert launch is not None and launch.kind == "launch"
            assert (launch.source_id, launch.launch_id) == (event.source_id, event.launch_id)
        else:
            assert launch is None
    assert {head["groups"][c[4] - 1] for c in columns if c[4]} == {e.collective for e in expected if e.collective}


def _decoded(packed: str) -> tuple[dict[str, Any], list[tuple[int, ...]]]:
    """The head, and per event: start, duration, name, link, group, bytes."""
    raw = zlib.decompress(base64.b64decode(packed))
    size = int.from_bytes(raw[:4], "little")
    head, at, found = json.loads(raw[4 : 4 + size]), 4 + size, list[tuple[int, ...]]()
    for what, _, _, count, base, length in head["chunks"]:
        numbers = _varints(raw[at : at + length])
        at += length
        if what == "events":
            start, duration, name, link, group, size = (numbers[i * count : (i + 1) * count] for i in range(6))
            starts = [base + sum(start[: i + 1]) for i in range(count)]
            signed = [n // 2 if n % 2 == 0 else -(n + 1) // 2 for n in link]
            links = [sum(signed[: i + 1]) for i in range(count)]
            found += zip(starts, duration, name, links, group, size, strict=True)
    assert at == len(raw)
    return head, found


def _varints(raw: bytes) -> list[int]:
    found, value, shift = [], 0, 0
    for byte in raw:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            value, shift = 0, 0
    return found


def test_names_are_bounded_and_rare_ones_share_one() -> None:
    events = [replace(_EVENT, name=f"{n}" + "x" * 4_000) for n in range(MAX_NAMES + 50)]
    table, ids = name_table(events)
    assert len(table) == MAX_NAMES + 1
    assert sum(len(name) for _, name, _, _ in table) < 1_500_000
    assert table[ids["compute", events[-1].name, "", ""]][1] == "a name of 50 that are not kept"


def test_a_page_of_the_most_random_events_is_below_5_mb() -> None:
    rng, half = random.Random(1), MAX_EVENTS // 2
    call = replace(_EVENT, device_id=None, stream_id=None, thread_id=1, kind="launch")
    launches = (_moved(call, START + n * 900, rng.randrange(899), launch_id=n) for n in range(half))
    kernels = (
        _moved(_EVENT, START + rng.randrange(2_000 * MS), rng.randrange(20 * US), name=f"k{rng.randrange(5_000)}",
               launch_id=rng.randrange(half), bytes=rng.randrange(1 << 30))
        for _ in range(half)
    )  # fmt: skip
    block = sample_timeline.merged().merged[0]
    blocks = tuple(
        replace(block, start_ns=(at := START + n * 7_919), end_ns=at + 7_000, busy_ns=rng.randrange(7_000))
        for n in range(MAX_BLOCKS)
    )
    rows = replace(sample_timeline.rows(), events=(*launches, *kernels), merged=blocks)
    assert len(timeline_page(rows, made_ns=1).encode()) < 5_000_000


def _moved(event: EventRow, start: int, length: int, **more: Any) -> EventRow:
    return replace(event, start_ns=start, end_ns=start + length, **more)


def test_the_page_lets_only_its_own_scripts_run() -> None:
    page = timeline_page(sample_timeline.hostile(), made_ns=1)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy and policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "<img" not in page
    assert page.count("<script") == 3
    assert not re.findall(r"(?:https?:)?//[a-z]", page.partition('data-tl="data"')[0].partition("<body")[2])


@pytest.mark.parametrize("most", [1, 7, 100, 1_000, 10_000])
def test_the_allowance_is_the_largest_that_fits(most: int) -> None:
    rng = random.Random(most)
    counts = [rng.randrange(1, 500) for _ in range(40)]
    n = allowance(counts, most)
    assert sum(min(n, c) for c in counts) <= most or n == 0
    assert sum(min(n + 1, c) for c in counts) > most or n == max(counts)


def _trace(name: str) -> list[dict[str, Any]]:
    trace = json.loads(gzip.decompress(perfetto(getattr(sample_timeline, name)())))
    return list(trace["traceEvents"])


def test_perfetto_gets_tracks_flows_and_annotations() -> None:
    rows = sample_timeline.rows()
    events = _trace("rows")
    names = {e["args"]["name"] for e in events if e["name"] in ("process_name", "thread_name")}
    assert {"steps of the job", "rank 2, node-1", "GPU 0 stream 7", "main thread", "main thread launches"} <= names
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == len(rows.events) + len(rows.marks)
    zero = rows.window.start_ns
    assert sorted(round(e["ts"] * 1_000) for e in slices) == sorted(e.start_ns - zero for e in rows.events + rows.marks)
    starts, ends = ({e["id"]: e for e in events if e["ph"] == ph} for ph in "sf")
    assert starts.keys() == ends.keys()
    assert len(starts) == sum(e.device_id is not None for e in rows.events)
    at = {(e["pid"], e["tid"], e["ts"]): e["name"] for e in slices}
    for number, start in starts.items():
        end = ends[number]
        assert at[start["pid"], start["tid"], start["ts"]].startswith("cuda")
        assert not at[end["pid"], end["tid"], end["ts"]].startswith("cuda")
        assert start["pid"] == end["pid"]
    assert {e["name"] for e in events if e["ph"] == "C"} == {"node-0 CPU, average", "node-0 memory used"}


def test_slices_of_a_perfetto_thread_nest() -> None:
    """Perfetto drops what overlaps without nesting."""
    threads: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for e in _trace("rows"):
        if e["ph"] == "X":
            start, length = round(e["ts"] * 1_000), round(e["dur"] * 1_000)
            threads.setdefault((e["pid"], e["tid"]), []).append((start, start + length))
    for spans in threads.values():
        open_ends: list[int] = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def test_perfetto_says_what_is_merged_and_is_the_same_twice() -> None:
    assert sum(e["name"] == "900 events" for e in _trace("merged")) == 100
    rows = sample_timeline.hostile()
    assert perfetto(rows) == perfetto(rows)
    assert _trace("bare")
