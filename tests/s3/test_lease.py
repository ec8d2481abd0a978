"""One writer at a time: by name, until it lets go, dies or falls silent."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from s3_servers import Server, environment

from tracelake.pipelines import lease
from tracelake.pipelines.lease import KEY, LeaseRefused, hold, holder
from tracelake.schemas.bucket import Bucket
from tracelake.schemas.storage import Folder, Storage

HOLDING = """
import sys, time
from pathlib import Path
from tracelake.pipelines.lease import hold
from tracelake.schemas.bucket import S3Options, storage_at
with hold(storage_at(sys.argv[1], S3Options(sys.argv[2] or None))):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(params=["folder", "bucket"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, server: Server) -> Storage:
    if request.param == "bucket":
        return server.lake(f"lease/{tmp_path.name}")
    (tmp_path / "lake").mkdir()
    return Folder(tmp_path / "lake")


def _other(storage: Storage, server: Server) -> subprocess.Popen[str]:
    """Another process that holds the lake."""
    url = server.url if isinstance(storage, Bucket) else ""
    command = [sys.executable, "-c", HOLDING, storage.name, url]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_a_second_writer_waits_and_says_for_whom(
    storage: Storage, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    other = _other(storage, server)
    try:
        assert (named := holder(storage)) is not None and named.process_id == other.pid
        began = time.monotonic()
        said = rf"held by `-c .* \(process {other.pid}\) since .*; run again when it"
        with pytest.raises(LeaseRefused, match=said), hold(storage, wait_seconds=0):
            raise AssertionError("held twice")
        assert time.monotonic() - began < 3
        with caplog.at_level(logging.WARNING), pytest.raises(LeaseRefused), hold(storage, wait_seconds=1.5):
            raise AssertionError("held twice")
        assert f"(process {other.pid})" in caplog.text and "waiting for it to end" in caplog.text
    finally:
        other.kill()
        other.wait()


def test_one_after_the_other(storage: Storage) -> None:
    inside, most = [], []

    def write() -> None:
        with hold(storage) as held:
            inside.append(1)
            most.append(len(inside))
            held.check()
            time.sleep(0.2)
            inside.pop()

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1] and holder(storage) is None


def test_a_dead_process_holds_no_folder(tmp_path: Path, server: Server) -> None:
    other = _other(Folder(tmp_path), server)
    other.kill()
    other.wait()
    with hold(Folder(tmp_path), wait_seconds=0):
        pass


def test_a_silent_holder_of_a_bucket_loses_it(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Its object is made as old as if it had died a minute ago; its process, still there, finds out and stops."""
    bucket = server.lake("silent")
    with hold(bucket) as old:
        _grow_old(server, "silent")
        assert holder(bucket) is None
        with caplog.at_level(logging.WARNING), hold(bucket, wait_seconds=0) as new:
            assert "has not renewed its lease; taken over" in caplog.text
            new.check()
            old._write(old._me)  # type: ignore[attr-defined]  -- what its thread does next
            with pytest.raises(LeaseRefused, match=r"the lease was taken over by .*; stopped before the next commit"):
                old.check()
            new.check()
        assert holder(bucket) is None


def _grow_old(server: Server, lake: str) -> None:
    at = time.time() - lease.LEASE_SECONDS - 5
    os.utime(server.on_disk(lake) / KEY, (at, at))


def test_a_holder_that_cannot_renew_stops_before_others_may_take_over(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.1)
    bucket = own_server.lake("unreachable")
    with hold(bucket) as held:
        own_server.kill()
        held.check()
        monkeypatch.setattr(lease, "LEASE_SECONDS", lease._MARGIN_SECONDS + 0.5)
        _until(lambda: _refusal(held), r"could not be renewed for .* stopped before the next commit")


def _refusal(held: lease.Lease) -> str:
    try:
        held.check()
    except LeaseRefused as refused:
        return str(refused)
    return ""


def _until(find: Callable[[], str], expected: str) -> None:
    deadline = time.monotonic() + 20
    while not (found := find()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert re.search(expected, found)


def test_renewal_keeps_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.1)
    bucket = server.lake("renewed")
    with hold(bucket) as held:
        _grow_old(server, "renewed")
        time.sleep(1)
        found = holder(bucket)
        assert found is not None and found.renewals > 1
        held.check()


def test_a_put_that_arrived_twice_is_no_loss(server: Server) -> None:
    """A client that got no answer sends again: its second put finds its first one."""
    bucket = server.lake("twice")
    with hold(bucket) as held:
        held._etag = '"another"'  # type: ignore[attr-defined]
        held._write(held._me)  # type: ignore[attr-defined]
        held.check()
