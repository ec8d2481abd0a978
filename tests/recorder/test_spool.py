"""The spool: frames whole or not at all, records on their borders, nothing read twice."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tracelake.recorder.spool import (
    RECORD_BYTES,
    EventsReader,
    Journal,
    JournalReader,
    events_path,
    journal_path,
    remove_read,
)


def test_frames_come_back_in_order_across_files(tmp_path: Path) -> None:
    journal, reader = Journal(tmp_path, file_bytes=200), JournalReader(tmp_path)
    written = [("kind", {"number": i, "text": "ü" * (i % 7), "list": [(i, None, 2**62)]}) for i in range(100)]
    read = []
    for i, (kind, value) in enumerate(written):
        journal.write(kind, value)
        if i % 7 == 0:
            read += list(reader.read())
    read += list(reader.read())
    assert read == written
    assert journal_path(tmp_path, 10).exists()
    assert reader.damaged_bytes == 0


@given(st.integers(0, 300), st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_a_torn_or_damaged_tail_costs_only_what_follows_it(cut: int, seed: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journal = Journal(folder)
        for i in range(10):
            journal.write("frame", i)
        journal.close()
        path = journal_path(folder, 0)
        data = path.read_bytes()
        frame = len(data) // 10
        kept = min(cut, len(data))
        tail = random.Random(seed).randbytes(20)
        path.write_bytes(data[:kept] + tail)
        read = [value for _, value in JournalReader(folder).read()]
        assert read == list(range(min(10, kept // frame)))


def test_a_reader_goes_on_where_another_stopped(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write("a", 1)
    first = JournalReader(tmp_path)
    assert list(first.read()) == [("a", 1)]
    journal.write("b", 2)
    assert list(JournalReader(tmp_path, first.position).read()) == [("b", 2)]


def record(number: int) -> bytes:
    return number.to_bytes(8, "little") * (RECORD_BYTES // 8)


def test_events_are_read_up_to_a_position_and_never_in_halves(tmp_path: Path) -> None:
    events_path(tmp_path, 0).write_bytes(b"".join(map(record, range(5))))
    events_path(tmp_path, 1).write_bytes(b"".join(map(record, range(5, 8))) + b"half")
    reader = EventsReader(tmp_path)
    assert reader.end() == (1, 3 * RECORD_BYTES)
    assert b"".join(reader.read((0, 2 * RECORD_BYTES))) == record(0) + record(1)
    assert b"".join(reader.read((1, RECORD_BYTES), most_bytes=2 * RECORD_BYTES)) == b"".join(map(record, range(2, 6)))
    assert b"".join(reader.read(reader.end())) == record(6) + record(7)
    assert list(reader.read(reader.end())) == []
    with events_path(tmp_path, 1).open("ab") as file:
        file.write(record(8)[4:])
    assert b"".join(reader.read(reader.end())) == b"half" + record(8)[4:]


def test_files_that_were_read_go_and_the_current_ones_stay(tmp_path: Path) -> None:
    for number in range(4):
        events_path(tmp_path, number).write_bytes(record(number))
        journal_path(tmp_path, number).write_bytes(b"")
    remove_read(tmp_path, (2, 0), (3, 0))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "events-00003.bin",
        "journal-00002.bin",
        "journal-00003.bin",
    ]
