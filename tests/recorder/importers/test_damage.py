"""Damaged and cut files: what is whole is kept, what is not is named with its place (case 3)."""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from trace_files import event, kernels, trace

from tracelake.recorder.importers import chunks, events
from tracelake.recorder.importers.chunks import ByteStream
from tracelake.recorder.importers.events import TraceReader

THREAD = '{"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "python 3"}}'
FLOW = '{"ph": "s", "id": 7, "pid": 1, "tid": 1, "ts": 3.5, "cat": "ac2g", "name": "ac2g"}'
NESTED = event("cpu_op", "aten::mm", 1, 2, **{"Input Dims": [[1, 2], []], "pair": [{"id": 1}, {"name": "x"}]})
MIXED = [THREAD, *kernels(2), FLOW, NESTED, *kernels(2, first=2), THREAD, *kernels(1, first=4)]


def _read(path: Path, content: bytes, *, batch: int = 4 << 20, piece: int = 1 << 20) -> tuple[TraceReader, list[str]]:
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "READ_BYTES", piece)
        patch.setattr(events, "BATCH_BYTES", batch)
        reader = TraceReader(ByteStream(path))
        found = [event.name for batch in reader for event in batch.events]
    return reader, found


def _ends(content: bytes, listed: list[str]) -> list[int]:
    """Where each event ends."""
    ends, at = [], 0
    for each in listed:
        at = content.index(each.encode(), at) + len(each.encode())
        ends.append(at)
    return ends


@pytest.mark.parametrize(("batch", "piece"), [(1, 13), (300, 50), (4 << 20, 1 << 20)])
def test_a_cut_file_gives_exactly_its_whole_events(tmp_path: Path, batch: int, piece: int) -> None:
    content = trace(MIXED, {"schemaVersion": 1})
    ends = _ends(content, MIXED)
    wrong = {}
    for cut in range(ends[0], ends[-1] + 1):
        reader, found = _read(tmp_path / "t.json", content[:cut], batch=batch, piece=piece)
        whole = [json.loads(each)["name"] for each, end in zip(MIXED, ends, strict=True) if end <= cut]
        lost = [("cut_row", 1)] if content[ends[len(whole) - 1] : cut].strip(b" \n,") else []
        said = (found, [(loss.reason, loss.rows) for loss in reader.losses], reader.cut, reader.read_bytes)
        if said != (whole, lost, "file_cut", ends[len(whole) - 1]):
            wrong[cut] = (content[:cut][-60:], said[0][len(whole) :], said[1:])
    assert wrong == {}


def test_case_3_a_file_cut_inside_event_701(tmp_path: Path) -> None:
    listed = kernels(1000)
    content = trace(listed)
    start = content.index(listed[700].encode())
    reader, found = _read(tmp_path / "t.json", content[: start + 40])
    assert len(found) == 700
    assert reader.cut == "file_cut"
    assert [(loss.offset, loss.length, loss.row_index, loss.rows, loss.reason) for loss in reader.losses] == [
        (start, 40, 700, 1, "cut_row")
    ]


def test_case_3_a_gzip_cut_at_70_percent(tmp_path: Path) -> None:
    packed = gzip.compress(trace(kernels(1000)))
    part = packed[: len(packed) * 7 // 10]
    prefix = zlib.decompressobj(wbits=31).decompress(part)
    reader, found = _read(tmp_path / "t.json.gz", part)
    whole = len(re.findall(rb'"name": "k\d+".*?\}\}', prefix))
    assert 400 < whole < 1000
    assert found == [f"k{i}" for i in range(whole)]
    assert reader.cut == "gzip_cut"


def test_a_file_without_its_last_brackets_is_cut_and_whole(tmp_path: Path) -> None:
    for tail in ("", ",", "\n", ",\n"):
        content = '{"traceEvents": [' + ",\n".join(kernels(3)) + tail
        reader, found = _read(tmp_path / "t.json", content.encode())
        assert (found, reader.cut, reader.losses) == (["k0", "k1", "k2"], "file_cut", [])


@pytest.mark.parametrize("damage", [b"\0", b"\xff", b'"', b"{", b"}", b"x", b"]", b"\\"])
@pytest.mark.parametrize(("first", "length"), [(150, 1), (300, 40), (500, 900), (1000, 5000)])
@pytest.mark.parametrize("batch", [500, 4 << 20])
def test_a_damaged_middle_costs_only_what_it_touches(
    tmp_path: Path, damage: bytes, first: int, length: int, batch: int
) -> None:
    listed = kernels(100)
    content = bytearray(trace(listed))
    ends = _ends(bytes(content), listed)
    content[first : first + length] = damage * length
    reader, found = _read(tmp_path / "t.json", bytes(content), batch=batch, piece=batch)
    starts = [end - len(each) for end, each in zip(ends, listed, strict=True)]
    touched = {i for i in range(100) if starts[i] < first + length and ends[i] > first}
    touched |= {i for i in range(100) if first <= ends[i] < first + length}
    kept = [f"k{i}" for i in range(100) if i not in touched]
    assert [name for name in found if name in kept] == kept
    assert len(found) <= len(kept) + len(touched)
    if len(found) == len(kept):
        assert reader.losses
    for loss in reader.losses:
        assert starts[min(touched)] <= loss.offset <= ends[max(touched)]
        assert loss.length > 0
        assert loss.excerpt == bytes(content[loss.offset : loss.offset + 200])
    assert reader.cut is None


@pytest.mark.parametrize("batch", [500, 4 << 20])
def test_one_row_that_is_no_json_is_one_lost_row(tmp_path: Path, batch: int) -> None:
    listed = kernels(20)
    listed[7] = listed[7].replace('"dur": 10', '"dur": : 10')
    listed[9] = listed[9].replace('"args": {', '"args": {"bad\\q": 1, ')
    content = trace(listed)
    reader, found = _read(tmp_path / "t.json", content, batch=batch, piece=batch)
    assert found == [f"k{i}" for i in range(20) if i not in (7, 9)]
    assert [(loss.row_index, loss.rows, loss.reason) for loss in reader.losses] == [
        (7, 1, "unreadable_row"),
        (9, 1, "unreadable_row"),
    ]
    for loss, row in zip(reader.losses, (7, 9), strict=True):
        assert content[loss.offset : loss.offset + loss.length] == listed[row].encode()


def test_rows_lost_before_shift_the_numbers_of_rows_after(tmp_path: Path) -> None:
    listed = [*kernels(5), '{"ph": : 1}', *kernels(5, first=5)]
    (tmp_path / "t.json").write_bytes(trace(listed))
    reader = TraceReader(ByteStream(tmp_path / "t.json"))
    rows = [batch.row(i) for batch in reader for i in range(len(batch.events))]
    assert reader.losses[0].row_index == 5
    assert rows == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]
