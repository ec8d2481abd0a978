"""Where a lake's files lie, whatever holds them: the one mechanism of what writes raw data and of what reads it.

A key is a file's path below the storage's root, with `/`; a folder is such a path too, and "" is the root.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol


class StorageFailed(RuntimeError):
    """A place cannot be read or written; the text names it and says what to do."""


@dataclass(frozen=True)
class Stored:
    """One file."""

    key: str
    bytes: int


class Storage(Protocol):
    """A folder (Folder) or a prefix of a bucket (schemas/bucket.py). All raise StorageFailed."""

    @property
    def name(self) -> str:
        """The root, as users write it."""

    def url(self, key: str) -> str:
        """A file or folder, as users write it."""

    def spark_url(self, key: str) -> str:
        """A file or folder, as Spark reads it."""

    def below(self, folder: str) -> Storage:
        """A folder as a storage of its own."""

    def put(self, file: Path, key: str) -> None:
        """Bring a local file there, whole or not at all."""

    def write(self, key: str, data: bytes, content_type: str | None = None) -> None:
        """Write bytes, whole or not at all."""

    def read(self, key: str) -> bytes:
        """A file's bytes."""

    def open(self, key: str) -> IO[bytes]:
        """A file to seek and read in, for readers that need parts of it."""

    def size(self, key: str) -> int | None:
        """A file's bytes; None where there is no such file."""

    def holds(self, folder: str, suffix: str = "") -> bool:
        """Whether there is a file below a folder, with a name that ends so."""

    def files(self, folder: str = "") -> Iterator[Stored]:
        """Every file below a folder, in the order of keys."""

    def folders(self, folder: str = "") -> list[str]:
        """The folders in a folder, as keys, in order."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files; those that are gone already count as removed."""


def storage_of(place: Path | Storage) -> Storage:
    """A folder's path, or a storage as it is."""
    return Folder(place) if isinstance(place, Path) else place


def joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else name


class Folder:
    """A folder that this machine sees."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def name(self) -> str:
        return str(self.root)

    def url(self, key: str) -> str:
        return str(self.root / key)

    def spark_url(self, key: str) -> str:
        return str((self.root / key).absolute())

    def below(self, folder: str) -> Folder:
        return Folder(self.root / folder)

    def put(self, file: Path, key: str) -> None:
        with self._aside(key) as aside:
            shutil.copyfile(file, aside.path)

    def write(self, key: str, data: bytes, content_type: str | None = None) -> None:
        with self._aside(key) as aside:
            aside.path.write_bytes(data)

    def _aside(self, key: str) -> _Aside:
        return _Aside(self.root / key)

    def read(self, key: str) -> bytes:
        try:
            return (self.root / key).read_bytes()
        except OSError as error:
            raise _unreadable(self.root / key, error) from error

    def open(self, key: str) -> IO[bytes]:
        try:
            return (self.root / key).open("rb")
        except OSError as error:
            raise _unreadable(self.root / key, error) from error

    def size(self, key: str) -> int | None:
        path = self.root / key
        return path.stat().st_size if path.is_file() else None

    def holds(self, folder: str, suffix: str = "") -> bool:
        return any(path.is_file() for path in (self.root / folder).rglob(f"*{suffix}"))

    def files(self, folder: str = "") -> Iterator[Stored]:
        found = {path.relative_to(self.root).as_posix(): path for path in (self.root / folder).rglob("*")}
        for key, path in sorted(found.items()):
            # Another process may remove what was just listed.
            with suppress(FileNotFoundError):
                if path.is_file():
                    yield Stored(key, path.stat().st_size)

    def folders(self, folder: str = "") -> list[str]:
        parent = self.root / folder
        return (
            sorted(joined(folder, path.name) for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []
        )

    def delete(self, keys: Iterable[str]) -> None:
        """Folders that become empty go too: elsewhere there are none."""
        for key in keys:
            path = self.root / key
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise StorageFailed(f"{path}: cannot be removed ({error.strerror})") from error
            with suppress(OSError):
                for parent in path.parents:
                    if parent == self.root:
                        break
                    parent.rmdir()


class _Aside:
    """A file written beside its final name and renamed at the end; none is left where that fails."""

    def __init__(self, final: Path) -> None:
        self.final = final
        self.path = final.with_name(f".{final.name}.{os.getpid()}.tmp")

    def __enter__(self) -> _Aside:
        try:
            self.final.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failed(error) from error
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self.path.replace(self.final)
        except OSError as late:
            error = late
        if error is not None:
            with suppress(OSError):
                self.path.unlink()
        if isinstance(error, OSError):
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> StorageFailed:
        return StorageFailed(f"{self.final} cannot be written: {error}; free space or give another output")


def _unreadable(path: Path, error: OSError) -> StorageFailed:
    return StorageFailed(f"{path}: cannot be read ({error.strerror})")
