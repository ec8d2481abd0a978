"""The byte stream: the same bytes, hash and marks however a file is packed, cut or read."""

from __future__ import annotations

import gzip
import hashlib
import random
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracelake.recorder.importers import chunks
from tracelake.recorder.importers.chunks import ByteStream

CONTENT = random.Random(7).randbytes(30_000) + b"abc" * 10_000
SHARED_FOLDER = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # every example writes its own file anew


def _read(path: Path, content: bytes, wanted: tuple[int, ...] = ()) -> tuple[ByteStream, bytes]:
    path.write_bytes(content)
    stream = ByteStream(path, wanted)
    return stream, b"".join(stream)


def _before_damage(packed: bytes) -> bytes:
    """What a gzip decoder that is fed byte by byte gives before it stops."""
    decoder, out = zlib.decompressobj(wbits=31), b""
    for at in range(len(packed)):
        try:
            out += decoder.decompress(packed[at : at + 1])
        except zlib.error:
            break
    return out


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("plain.json", CONTENT),
        ("named_as_gzip.json.gz", CONTENT),
        ("packed.json.gz", gzip.compress(CONTENT)),
        ("named_as_plain.json", gzip.compress(CONTENT)),
        ("two_members.gz", gzip.compress(CONTENT[:20_000]) + gzip.compress(CONTENT[20_000:])),
        ("empty_member.gz", gzip.compress(b"") + gzip.compress(CONTENT) + gzip.compress(b"")),
        ("padded.gz", gzip.compress(CONTENT) + b"\0" * 512),
    ],
)
@pytest.mark.parametrize("read_bytes", [7, 4096, 1 << 20])
def test_the_packing_of_a_file_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, packed: bytes, read_bytes: int
) -> None:
    monkeypatch.setattr(chunks, "READ_BYTES", read_bytes)
    stream, content = _read(tmp_path / name, packed)
    assert content == CONTENT
    assert stream.cut is None
    assert stream.length == len(CONTENT)
    assert stream.sha256 == hashlib.sha256(CONTENT).hexdigest()


@SHARED_FOLDER
@given(share=st.floats(0.01, 0.999))
def test_a_cut_gzip_gives_all_that_it_holds(tmp_path: Path, share: float) -> None:
    packed = gzip.compress(CONTENT)
    part = packed[: max(20, int(len(packed) * share))]
    stream, content = _read(tmp_path / "cut.gz", part)
    assert stream.cut == "gzip_cut"
    assert content == _before_damage(part)
    assert CONTENT.startswith(content)


def test_a_cut_in_the_second_member_is_a_cut(tmp_path: Path) -> None:
    packed = gzip.compress(b"first ") + gzip.compress(CONTENT)[:-100]
    stream, content = _read(tmp_path / "cut.gz", packed)
    assert stream.cut == "gzip_cut"
    assert content.startswith(b"first " + CONTENT[:1000])


def test_a_damaged_gzip_gives_what_comes_before_the_damage(tmp_path: Path) -> None:
    content = b",".join(b'{"name": "k%d"}' % (i * 7919 % 100_003) for i in range(20_000))
    packed = bytearray(gzip.compress(content))
    middle = int(len(packed) * 0.7)
    packed[middle : middle + 64] = b"\xff" * 64
    expected = _before_damage(bytes(packed))
    assert len(expected) > len(content) // 2
    stream, kept = _read(tmp_path / "damaged.gz", bytes(packed))
    assert stream.cut == "gzip_damaged"
    assert expected.startswith(kept)
    assert len(kept) >= len(expected) - 1024


def test_a_wrong_checksum_is_damage(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(CONTENT))
    packed[-6] ^= 1
    stream, content = _read(tmp_path / "checksum.gz", bytes(packed))
    assert stream.cut == "gzip_damaged"
    assert content == CONTENT


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    stream, content = _read(tmp_path / "empty.json", b"")
    assert (content, stream.length, stream.cut) == (b"", 0, None)


@SHARED_FOLDER
@given(wanted=st.lists(st.integers(1, 70_000), max_size=8), read_bytes=st.integers(2, 9000), is_packed=st.booleans())
def test_prefix_hashes_are_those_of_the_prefixes(
    tmp_path: Path, wanted: list[int], read_bytes: int, is_packed: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "READ_BYTES", read_bytes)
        stream, _ = _read(tmp_path / "trace", gzip.compress(CONTENT) if is_packed else CONTENT, tuple(wanted))
    expected = {at: hashlib.sha256(CONTENT[:at]).hexdigest() for at in wanted if at <= len(CONTENT)}
    assert stream.prefix_hashes == expected


@pytest.mark.parametrize("length", [100, 4096, 100_000, 4 << 20, 9_000_001])
def test_marks_are_few_and_right(tmp_path: Path, length: int) -> None:
    content = (CONTENT * (length // len(CONTENT) + 1))[:length]
    stream, _ = _read(tmp_path / "long", content)
    assert len(stream.marks) <= 256
    assert (length < 4096) == (not stream.marks)
    for at, digest in stream.marks.items():
        assert digest == hashlib.sha256(content[:at]).hexdigest()


def test_marks_of_a_short_file_are_among_those_of_the_long_one_that_it_begins(tmp_path: Path) -> None:
    content = CONTENT * 200
    long, _ = _read(tmp_path / "long", content)
    short, _ = _read(tmp_path / "short", content[: len(content) * 7 // 10])
    shared = set(long.marks) & set(short.marks)
    assert shared
    assert all(long.marks[at] == short.marks[at] for at in shared)
