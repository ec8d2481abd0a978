"""The spool: append-only files by which a training process hands its events to the sidecar.

It outlives the process and its sidecar: whatever is in it can be turned into segments later.

    process.json         who records what, written once
    journal-00000.bin    frames of Python values: windows, annotations, gaps, counts
    events-00000.bin     native records of `RECORD_BYTES` each
    names.tsv            kernel names by id, each written before the first record that uses it
"""

from __future__ import annotations

import marshal
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORD_BYTES = 40
JOURNAL_FILE_BYTES = 16 << 20
PROCESS = "process.json"
CONTROL = "control"
NAMES = "names.tsv"
LOG = "sidecar.log"
_FRAME = struct.Struct("<II")
# Version 4 of the format is read alike by every supported Python.
_MARSHAL = 4


def journal_path(folder: Path, number: int) -> Path:
    return folder / f"journal-{number:05d}.bin"


def events_path(folder: Path, number: int) -> Path:
    return folder / f"events-{number:05d}.bin"


class Journal:
    """Writes frames; any thread may. A frame is on disk as a whole or not at all."""

    def __init__(self, folder: Path, file_bytes: int = JOURNAL_FILE_BYTES) -> None:
        self._folder, self._file_bytes = folder, file_bytes
        self._lock = threading.Lock()
        self._number = 0
        self._size = 0
        self._fd = self._open()

    def _open(self) -> int:
        path = journal_path(self._folder, self._number)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, kind: str, value: Any) -> None:
        """Append one frame of plain values. Raises OSError where the disk refuses; nothing of the frame stays then."""
        payload = marshal.dumps((kind, value), _MARSHAL)
        frame = _FRAME.pack(len(payload), zlib.crc32(payload)) + payload
        with self._lock:
            if self._size and self._size + len(frame) > self._file_bytes:
                self._rotate()
            self._append(frame)
            self._size += len(frame)

    def _append(self, frame: bytes) -> None:
        written = 0
        try:
            while written < len(frame):
                written += os.write(self._fd, memoryview(frame)[written:])
        except OSError:
            if written:
                os.ftruncate(self._fd, self._size)
            raise

    def _rotate(self) -> None:
        old = self._fd
        self._number += 1
        try:
            self._fd = self._open()
        except OSError:
            self._number -= 1
            raise
        self._size = 0
        os.close(old)

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def abandon(self) -> None:
        """In a forked child: let go of the parent's file without touching its lock."""
        self._lock = threading.Lock()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class JournalReader:
    """Reads frames as they come. `position` is (file number, bytes) of what has been handed out."""

    def __init__(self, folder: Path, position: tuple[int, int] = (0, 0)) -> None:
        self._folder = folder
        self.position = position
        self.damaged_bytes = 0

    def read(self) -> Iterator[tuple[str, Any]]:
        """New frames. A torn tail is left for the next call; it never becomes whole where its writer died."""
        while True:
            number, offset = self.position
            # Asked before reading: a frame that comes after it would be missed when moving on.
            is_rotated = journal_path(self._folder, number + 1).exists()
            yield from self._file(number, offset)
            if not is_rotated:
                return
            self.damaged_bytes += max(0, journal_path(self._folder, number).stat().st_size - self.position[1])
            self.position = (number + 1, 0)

    def _file(self, number: int, offset: int) -> Iterator[tuple[str, Any]]:
        try:
            with journal_path(self._folder, number).open("rb") as file:
                file.seek(offset)
                data = file.read()
        except FileNotFoundError:
            return
        at = 0
        while at + _FRAME.size <= len(data):
            size, checksum = _FRAME.unpack_from(data, at)
            payload = data[at + _FRAME.size : at + _FRAME.size + size]
            if len(payload) < size or zlib.crc32(payload) != checksum:
                return
            at += _FRAME.size + size
            self.position = (number, offset + at)
            yield marshal.loads(payload)


class EventsReader:
    """Reads native records as they come, up to a position at a time."""

    def __init__(self, folder: Path, position: tuple[int, int] = (0, 0)) -> None:
        self._folder = folder
        self.position = position

    def end(self) -> tuple[int, int]:
        """The position behind the last whole record written so far."""
        number, offset = self.position
        while events_path(self._folder, number + 1).exists():
            number, offset = number + 1, 0
        try:
            size = events_path(self._folder, number).stat().st_size
        except FileNotFoundError:
            return number, offset
        return number, max(offset, size - size % RECORD_BYTES)

    def read(self, until: tuple[int, int], most_bytes: int = 200_000 * RECORD_BYTES) -> Iterator[bytes]:
        """Records between the last position and `until`, in chunks of whole records."""
        while self.position < until:
            number, offset = self.position
            path = events_path(self._folder, number)
            size = until[1] if number == until[0] else (path.stat().st_size if path.exists() else offset)
            size -= size % RECORD_BYTES
            if offset < size:
                with path.open("rb") as file:
                    file.seek(offset)
                    data = file.read(min(most_bytes, size - offset))
                data = data[: len(data) - len(data) % RECORD_BYTES]
                if data:
                    self.position = (number, offset + len(data))
                    yield data
                    continue
            if number >= until[0]:
                return
            self.position = (number + 1, 0)


def remove_read(folder: Path, journal: tuple[int, int], events: tuple[int, int]) -> None:
    """Remove the files before both positions: their rows are safe elsewhere."""
    for position, path in ((journal, journal_path), (events, events_path)):
        for number in range(position[0] - 1, -1, -1):
            gone = path(folder, number)
            if not gone.exists():
                break
            gone.unlink()


def used_bytes(folder: Path) -> int:
    """Size of what waits in the spool. Files that vanish meanwhile count nothing."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                total += entry.stat().st_size if entry.is_file() else 0
            except FileNotFoundError:
                continue
    return total
