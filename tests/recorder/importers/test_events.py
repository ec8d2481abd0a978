"""Events out of bytes: the same ones however the bytes come, and whatever surrounds or damages them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from trace_files import event, kernels, trace

from tracelake.recorder.importers import chunks, events
from tracelake.recorder.importers.chunks import ByteStream
from tracelake.recorder.importers.events import Event, NotATrace, TraceReader

PROPERTY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WORDS = ("}, {", '"traceEvents": [', "]}", '\\"', '{"ph":', '},\n{ "name"', "é", "\u2028", "\\", "[[", "\n", "]", "")
BAD_NAMES = (b"k\x01", b"k\x02", b"k\x9f", "ké".encode())

names = st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=4).map("".join)
values = st.recursive(
    st.integers(-5, 5) | st.booleans() | st.none() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
events_in_file = st.fixed_dictionaries(
    {"ph": st.sampled_from("XisM"), "name": names},
    optional={
        "cat": st.sampled_from(["kernel", "cpu_op"]),
        "pid": st.integers(0, 1 << 40) | names,
        "tid": st.integers(0, 1 << 40) | names,
        "ts": st.integers(0, 1 << 52),
        "dur": st.floats(0, 1e9),
        "args": st.dictionaries(names.map("x".__add__), values, max_size=3),
    },
)
headers = st.dictionaries(names.map("h".__add__), values, max_size=2)


def _read(path: Path, content: bytes, *, batch: int = 4 << 20, piece: int = 1 << 20) -> tuple[TraceReader, list[Event]]:
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "READ_BYTES", piece)
        patch.setattr(events, "BATCH_BYTES", batch)
        reader = TraceReader(ByteStream(path))
        found = [event for batch in reader for event in batch.events]
    return reader, found


def _plain(found: list[Event]) -> list[Any]:
    """Events that compare by what they say: raw JSON as its bytes."""
    return [
        {name: bytes(value) if isinstance(value, msgspec.Raw) else value for name, value in _fields(each)}
        for each in found
    ]


def _fields(each: Event) -> list[tuple[str, Any]]:
    args = msgspec.structs.asdict(each.args).items() if each.args else ()
    return [
        *((k, v) for k, v in msgspec.structs.asdict(each).items() if k != "args"),
        *(("args." + k, v) for k, v in args),
    ]


def _whole(listed: list[dict[str, Any]], **style: Any) -> list[Any]:
    return _plain(msgspec.json.decode(json.dumps(listed, **style).encode(), type=list[Event]))


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """(content, events, header fields, how the JSON is written)."""
    listed = draw(st.lists(events_in_file, min_size=1, max_size=12))
    style: dict[str, Any] = {"indent": draw(st.sampled_from([None, 0, 2])), "ensure_ascii": draw(st.booleans())}
    body = json.dumps(listed, **style)
    if draw(st.booleans()):
        return body.encode(), listed, {}, style
    before, after = draw(headers), draw(headers)
    parts = [json.dumps(before)[1:-1], f'"traceEvents": {body}', json.dumps(after)[1:-1]]
    return ("{" + ",".join(part for part in parts if part) + "}").encode(), listed, {**before, **after}, style


@PROPERTY
@given(file=files(), batch=st.integers(1, 4000), piece=st.integers(1, 4000))
def test_how_the_bytes_come_does_not_matter(tmp_path: Path, file: Any, batch: int, piece: int) -> None:
    content, listed, header, style = file
    reader, found = _read(tmp_path / "t.json", content, batch=batch, piece=piece)
    assert _plain(found) == _whole(listed, **style)
    assert reader.header == header
    assert (reader.rows, reader.losses, reader.warnings, reader.cut) == (len(listed), [], {}, None)


@PROPERTY
@given(file=files(), piece=st.integers(1, 4000))
def test_event_by_event_is_batch_by_batch(tmp_path: Path, file: Any, piece: int) -> None:
    content, *_ = file
    fast, by_batch = _read(tmp_path / "t.json", content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TraceReader, "_take", TraceReader._walk)
        slow, one_by_one = _read(tmp_path / "t.json", content, batch=1, piece=piece)
    assert _plain(one_by_one) == _plain(by_batch)
    assert (slow.header, slow.rows, slow.cut, slow.losses) == (fast.header, fast.rows, fast.cut, fast.losses)


def test_spans_are_the_places_of_the_events(tmp_path: Path) -> None:
    content = trace(kernels(50), {"schemaVersion": 1})
    (tmp_path / "t.json").write_bytes(content)
    for batch in TraceReader(ByteStream(tmp_path / "t.json")):
        for index, each in enumerate(batch.events):
            offset, length = batch.span(index)
            assert json.loads(content[offset : offset + length])["name"] == each.name


@pytest.mark.parametrize("header", ["before", "after", "both", "none"])
def test_the_header_may_stand_on_either_side(tmp_path: Path, header: str) -> None:
    before = '"deviceProperties": [{"id": 0, "note": "\\"traceEvents\\": ["}], ' if header in ("before", "both") else ""
    after = ', "distributedInfo": {"rank": 3}' if header in ("after", "both") else ""
    body = ",".join(kernels(3))
    reader, found = _read(tmp_path / "t.json", f'{{{before}"traceEvents": [{body}]{after}}}'.encode())
    assert [each.name for each in found] == ["k0", "k1", "k2"]
    assert ("deviceProperties" in reader.header) == bool(before)
    assert reader.header.get("distributedInfo") == ({"rank": 3} if after else None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"   \n",
        b"\xef\xbb\xbf",
        b"not JSON at all",
        b"42",
        b'"traceEvents"',
        b"[1, 2]",
        b"[[0, 1]]",
        b"{}",
        b'{"events": [{"ph": "X"}]}',
        b'{"note": "\\"traceEvents\\": [{}]"}',
        b'{"nested": {"traceEvents": [{"ph": "X"}]}}',
    ],
)
def test_other_files_are_no_traces(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(NotATrace):
        _read(tmp_path / "t.json", content)


def _case_1() -> bytes:
    """Case 1: raw control bytes, bytes outside UTF-8, and words that are not JSON."""
    occupancy = (b"50", b"NaN", b"30", b"N/A")
    rows = [
        b'{"ph": "X", "cat": "kernel", "name": "%s", "ts": %d, "dur": 10, "args": {"extra": %s,'
        b' "est. achieved occupancy %%": %s}}' % (name, 10 * i, b"Infinity" if i == 2 else b"1", share)
        for i, (name, share) in enumerate(zip(BAD_NAMES, occupancy, strict=True))
    ]
    return b'{"traceEvents": [' + b",\n".join(rows) + b"]}"


@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
def test_bytes_that_are_not_json_cost_no_event(tmp_path: Path, piece: int) -> None:
    reader, found = _read(tmp_path / "t.json", _case_1(), batch=piece, piece=piece)
    assert [each.name for each in found] == ["k\x01", "k\x02", "k\\x9f", "ké"]
    assert [each.args and each.args.occupancy for each in found] == [50, None, 30, None]
    assert reader.warnings == {"control_byte": 2, "not_utf8": 1, "token_not_json": 3}
    assert (reader.losses, reader.cut) == ([], None)


@PROPERTY
@given(batch=st.integers(1, 900), piece=st.integers(1, 900))
def test_bad_bytes_are_mended_however_they_come(tmp_path: Path, batch: int, piece: int) -> None:
    content = trace(kernels(3)).replace(b"\n]}", b",\n" + _case_1()[17:])
    reader, found = _read(tmp_path / "t.json", content, batch=batch, piece=piece)
    assert [each.name for each in found] == ["k0", "k1", "k2", "k\x01", "k\x02", "k\\x9f", "ké"]
    assert reader.warnings == {"control_byte": 2, "not_utf8": 1, "token_not_json": 3}


def test_fields_of_odd_types_cost_no_event(tmp_path: Path) -> None:
    odd = '{"ph": "X", "cat": 5, "name": 7, "pid": [1], "tid": null, "ts": "12.5", "dur": 1, "args": [1]}'
    more = '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"grid": "none", "stream": 7}}'
    reader, found = _read(tmp_path / "t.json", trace([*kernels(1), odd, more]))
    assert [each.name for each in found] == ["k0", "7", "k"]
    assert found[2].args is not None
    assert (found[2].args.grid, found[2].args.stream) == (None, 7)
    assert reader.losses == []


def test_a_long_name_is_no_obstacle(tmp_path: Path) -> None:
    name = "n" * 300_000
    _, found = _read(tmp_path / "t.json", trace([event("kernel", name, 1, 1), *kernels(2)]), batch=1000, piece=9999)
    assert [len(each.name) for each in found] == [300_000, 2, 2]
