"""Trace files in buckets: found as files, folders and globs are, and fetched when they are read."""

from __future__ import annotations

import fnmatch
import glob
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tracelake.recorder.importers.trace_file import ImportFailed
from tracelake.schemas.bucket import SCHEME, Bucket, Connection


@dataclass(frozen=True)
class S3Trace:
    """One object."""

    bucket: Bucket
    key: str

    def __str__(self) -> str:
        return self.bucket.url(self.key)

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @contextmanager
    def fetched(self) -> Iterator[Path]:
        """A copy on this machine, for as long as it is read: a trace is read twice where it is cut."""
        with tempfile.TemporaryDirectory(prefix="tracelake-") as folder:
            path = Path(folder) / self.name
            self.bucket.fetch(self.key, path)
            yield path


def find_in_bucket(given: str, connection: Connection, suffixes: tuple[str, ...]) -> list[S3Trace]:
    """The traces that an object, a folder or a glob names. Raises ImportFailed where it names none."""
    name, _, key = given.removeprefix(SCHEME).partition("/")
    bucket = Bucket(connection, name, "")
    if glob.has_magic(key):
        fixed = key[: next(at for at, letter in enumerate(key) if letter in "*?[")].rpartition("/")[0]
        found = [file.key for file in bucket.files(fixed) if fnmatch.fnmatchcase(file.key, key)]
        if not found:
            raise ImportFailed(f"{given}: no object matches")
    elif key and not key.endswith("/") and bucket.size(key) is not None:
        found = [key]
    else:
        found = [file.key for file in bucket.files(key.rstrip("/")) if file.key.endswith(suffixes)]
        if not found:
            raise ImportFailed(f"{given}: no such object, and no {' or '.join(suffixes)} object below it")
    return [S3Trace(bucket, each) for each in found]
