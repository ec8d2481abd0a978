"""The lease of a lake: one writer at a time, by name; the next one waits, or leaves with a clear word.

In a folder it is a lock on `.lease` that ends with its process. In a bucket it is the object `.lease`, taken by
conditional put, renewed while its holder lives, and taken over when it was not renewed for LEASE_SECONDS by the
server's clock. Its content changes with each renewal, so that no two states have the same tag.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import platform
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Protocol

from tracelake.schemas.bucket import Bucket
from tracelake.schemas.storage import Folder, Storage, StorageFailed

KEY = ".lease"
LEASE_SECONDS = 60.0
RENEW_SECONDS = 15.0
_MARGIN_SECONDS = 10.0
"""A holder stops so long before others may take over: a commit that it has begun takes seconds."""
_POLL_SECONDS = 1.0
LOG = logging.getLogger("tracelake.lease")


class LeaseRefused(RuntimeError):
    """The lake is held by another process, or no longer by this one; the text says by whom."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lake. `is_held` is false once it has let go."""

    host: str
    process_id: int
    command: str
    since: str
    token: str
    renewals: int = 0
    is_held: bool = True

    @staticmethod
    def me() -> Holder:
        program = Path(sys.argv[0])
        name = program.parent.name if program.name == "__main__.py" else program.name
        command = " ".join((name, *sys.argv[1:2]))
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        return Holder(platform.node(), os.getpid(), command, since, uuid.uuid4().hex)

    def __str__(self) -> str:
        return f"`{self.command}` on {self.host} (process {self.process_id}) since {self.since}"

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_json(data: bytes) -> Holder | None:
        """None where the bytes name nobody: a lock just taken, or another program's file."""
        try:
            return Holder(**json.loads(data))
        except (ValueError, TypeError):
            return None


class Lease(Protocol):
    """A lake held for writing."""

    def check(self) -> None:
        """Raises LeaseRefused where it is no longer held. To be asked before each commit."""


@contextmanager
def hold(storage: Storage, wait_seconds: float | None = None) -> Iterator[Lease]:
    """Hold a lake, after `wait_seconds` at most (None: however long it takes). Raises LeaseRefused, StorageFailed."""
    if isinstance(storage, Folder):
        with _folder_lease(storage.root, wait_seconds) as lease:
            yield lease
    elif isinstance(storage, Bucket):
        lease_ = _BucketLease(storage, Holder.me())
        _wait(lease_.take, lambda: holder(storage), storage.name, wait_seconds)
        with lease_.kept():
            yield lease_
    else:
        raise TypeError(f"{storage.name}: no lease for a {type(storage).__name__}")


def holder(storage: Storage) -> Holder | None:
    """Who holds a lake now; None where it is free, or held by one who has not yet given a name."""
    if isinstance(storage, Bucket):
        found = storage.tagged(KEY)
        if found is None or found.age_seconds >= LEASE_SECONDS:
            return None
        named = Holder.from_json(found.data)
        return named if named and named.is_held else None
    return Holder.from_json(storage.read(KEY)) if storage.size(KEY) else None


def _wait(take: Callable[[], bool], who: Callable[[], Holder | None], name: str, wait_seconds: float | None) -> None:
    started, is_said = time.monotonic(), False
    while not take():
        holds = who() or "another process"
        if wait_seconds is not None and time.monotonic() - started >= wait_seconds:
            raise LeaseRefused(f"{name}: held by {holds}; run again when it has ended, or without --no-wait")
        if not is_said:
            LOG.warning("%s is held by %s; waiting for it to end", name, holds)
            is_said = True
        time.sleep(_POLL_SECONDS)


class _FolderLease:
    def check(self) -> None:
        """The lock is this process's until it lets go."""


@contextmanager
def _folder_lease(root: Path, wait_seconds: float | None) -> Iterator[Lease]:
    with _opened(root / KEY) as file:
        _wait(lambda: _lock(file), lambda: holder(Folder(root)), str(root), wait_seconds)
        file.truncate(0)
        file.write(Holder.me().to_json())
        file.flush()
        try:
            yield _FolderLease()
        finally:
            file.truncate(0)


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("a+b")
    except OSError as error:
        raise LeaseRefused(f"{path}: cannot be opened ({error.strerror}); every writer of the lake needs it") from error


def _lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(root: Path) -> bool:
    """Whether a process holds a folder now; a name that is left in the file may be a dead one's."""
    with suppress(FileNotFoundError), (root / KEY).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class _BucketLease:
    """The object, the tag that it had when this process last wrote it, and a thread that writes it again."""

    def __init__(self, bucket: Bucket, me: Holder) -> None:
        self._bucket, self._me, self._etag = bucket, me, ""
        self._renewed = time.monotonic()
        self._lost = ""
        self._ended = threading.Event()

    def take(self) -> bool:
        """Whether the lease is this process's now."""
        asked = time.monotonic()
        found = self._bucket.tagged(KEY)
        if found is None:
            etag = self._bucket.create(KEY, self._me.to_json())
            if etag and self._bucket.create(KEY, self._me.to_json()):
                raise LeaseRefused(_no_conditions(self._bucket, "If-None-Match"))
        else:
            other = Holder.from_json(found.data)
            is_free = other is None or not other.is_held or other.token == self._me.token
            if not is_free and found.age_seconds < LEASE_SECONDS:
                return False
            if other and not is_free:
                LOG.warning("%s: %s has not renewed its lease; taken over", self._bucket.name, other)
            etag = self._bucket.exchange(KEY, self._me.to_json(), found.etag)
        if etag is None:
            return False  # another was faster; or this put arrived twice, which the next try finds out by the token
        if self._bucket.exchange(KEY, self._me.to_json(), '"0"'):
            raise LeaseRefused(_no_conditions(self._bucket, "If-Match"))
        self._etag, self._renewed = etag, asked
        return True

    @contextmanager
    def kept(self) -> Iterator[None]:
        thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            # Where the server is gone, the lease runs out by itself.
            with suppress(StorageFailed):
                self._write(replace(self._me, is_held=False))

    def check(self) -> None:
        if self._lost:
            raise LeaseRefused(f"{self._bucket.name}: {self._lost}; stopped before the next commit, run again")
        silent = time.monotonic() - self._renewed
        if silent > LEASE_SECONDS - _MARGIN_SECONDS:
            raise LeaseRefused(
                f"{self._bucket.name}: the lease could not be renewed for {silent:.0f} s and may be another's by now;"
                " stopped before the next commit, run again"
            )

    def _keep(self) -> None:
        is_said = False
        while not self._ended.wait(RENEW_SECONDS) and not self._lost:
            self._me = replace(self._me, renewals=self._me.renewals + 1)
            try:
                self._write(self._me)
                is_said = False
            except StorageFailed as error:
                if not is_said:
                    LOG.warning("the lease could not be renewed: %s", error)
                is_said = True

    def _write(self, state: Holder) -> None:
        asked = time.monotonic()
        etag = self._bucket.exchange(KEY, state.to_json(), self._etag)
        if etag is None:
            # A put whose answer was lost is sent twice, and the second one finds the first.
            found = self._bucket.tagged(KEY)
            other = Holder.from_json(found.data) if found else None
            if found is None or other is None or other.token != self._me.token:
                self._lost = f"the lease was taken over by {other or 'another process'}"
                return
            etag = found.etag
        self._etag, self._renewed = etag, asked


def _no_conditions(bucket: Bucket, header: str) -> str:
    return (
        f"{bucket.name}: the server ignores {header}, so that it cannot keep two writers apart;"
        " use one that knows conditional puts, or a folder"
    )
