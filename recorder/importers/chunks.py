"""The bytes of a trace file: decompressed piece by piece, hashed on the way, however the file ends."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

READ_BYTES = 1 << 20
_FIRST_MARK = 4096
_MOST_MARKS = 64
_SMALL_STEP = 4096


class ByteStream:
    """Iterate over the uncompressed bytes of a file, plain or gzip (told by its first bytes, not its name).

    `sha256` and `length` are of the uncompressed bytes read so far. `cut` says why the compressed stream ended
    early, if it did. `prefix_hashes` holds the hash at marks whose distance doubles as the file grows, and
    at each of `wanted` lengths: what tells a cut file from its whole one.
    """

    def __init__(self, path: Path, wanted: Sequence[int] = ()) -> None:
        self.path = path
        self.length = 0
        self.cut: str | None = None
        self.prefix_hashes: dict[int, str] = {}
        self._hash = hashlib.sha256()
        self._wanted = sorted(set(wanted))
        self._marks: dict[int, str] = {}
        self._step = _FIRST_MARK

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    @property
    def marks(self) -> dict[int, str]:
        """Hashes at multiples of one distance, at most 256 of them."""
        return {at: digest for at, digest in self._marks.items() if at % self._step == 0}

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            first = file.read(READ_BYTES)
            pieces = self._gunzip(first, file) if first[:2] == b"\x1f\x8b" else self._plain(first, file)
            for piece in pieces:
                self._account(piece)
                yield piece

    @staticmethod
    def _plain(first: bytes, file: BinaryIO) -> Iterator[bytes]:
        piece = first
        while piece:
            yield piece
            piece = file.read(READ_BYTES)

    def _gunzip(self, first: bytes, file: BinaryIO) -> Iterator[bytes]:
        decoder = zlib.decompressobj(wbits=31)
        piece = first
        while piece:
            before = decoder.copy()
            try:
                out = decoder.decompress(piece, 4 * READ_BYTES)
            except zlib.error:
                self.cut = "gzip_damaged"
                yield from _up_to_the_damage(before, piece)
                return
            if out:
                yield out
            piece = decoder.unconsumed_tail
            if decoder.eof:  # a gzip file may hold several members
                piece = decoder.unused_data or file.read(READ_BYTES)
                if piece and not piece.strip(b"\0"):
                    return
                if piece:
                    decoder = zlib.decompressobj(wbits=31)
                continue
            piece = piece or file.read(READ_BYTES)
        if not decoder.eof:
            self.cut = "gzip_cut"
            if rest := decoder.flush():
                yield rest

    def _account(self, piece: bytes) -> None:
        start, end = self.length, self.length + len(piece)
        stops = [at for at in self._wanted if start < at <= end]
        mark = (start // self._step + 1) * self._step
        while mark <= end:
            stops.append(mark)
            mark += self._step
        view, at = memoryview(piece), start
        for stop in sorted(set(stops)):
            self._hash.update(view[at - start : stop - start])
            at = stop
            digest = self._hash.copy().hexdigest()
            if stop in self._wanted:
                self.prefix_hashes[stop] = digest
            if stop % self._step == 0:
                self._marks[stop] = digest
        self._hash.update(view[at - start :])
        self.length = end
        while len(self._marks) > _MOST_MARKS:
            self._step *= 2
            self._marks = self.marks


def _up_to_the_damage(decoder: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    """What a damaged piece holds before the damage: a failing call keeps back all that it had, so the steps narrow."""
    step = _SMALL_STEP
    at = 0
    while at < len(piece):
        before = decoder.copy()
        try:
            out = decoder.decompress(piece[at : at + step])
        except zlib.error:
            if step == 1:
                return
            decoder, step = before, 1
            continue
        if out:
            yield out
        at += step
