"""Outputs that fail: full and read-only disks, an S3 server that is not there, goes away, or is slow."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from recorded import Lake, environment, run, start, wait_for, wait_until_delivered

STEPS = """
import sys, time
import tracelake

with tracelake.record():
    for step in range(int(sys.argv[1])):
        with tracelake.annotate(f"step_{step}"):
            time.sleep(float(sys.argv[2]))
"""


@contextmanager
def small_disk(folder: Path, size: str, *options: str) -> Iterator[Path]:
    """A file system of its own at `folder`; skips where none may be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", ",".join((f"size={size}", *options)), "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_spool_drops_and_counts_and_the_job_goes_on(tmp_path: Path) -> None:
    text = """
    import os, pathlib, sys, time
    import tracelake
    from tracelake.recorder import process

    spool = pathlib.Path(os.environ["TRACELAKE_SPOOL"])
    with tracelake.record():
        time.sleep(1.0)
        fill = (spool / "fill").open("wb", buffering=0)
        try:
            while True:
                fill.write(bytes(4096))
        except OSError:
            pass
        for i in range(20_000):
            with tracelake.annotate("while full"):
                pass
        time.sleep(0.5)
        fill.close()
        (spool / "fill").unlink()
        time.sleep(0.5)
        with tracelake.annotate("after"):
            pass
        recording = process.current()
    print(recording.outgoing.collector.dropped_count)
    """
    with small_disk(tmp_path / "spool", "2m"):
        done = run(tmp_path, text, environment(tmp_path))
        assert done.returncode == 0, done.stderr
        wait_for(lambda: Lake(tmp_path / "lake").closing(), "the closing row")
        lake = wait_until_delivered(tmp_path)
    dropped = int(done.stdout)
    texts = [row["text"] for row in lake.rows("annotation")]
    assert dropped > 0
    assert texts.count("while full") + dropped == 20_000
    assert texts.count("after") == 1
    (end,) = lake.closing()
    assert (end["status"], end["status_reason"]) == ("degraded", "events_dropped")
    assert dict(end["dropped"])["annotation"] == str(dropped)
    assert len(done.stderr.splitlines()) <= 5


def test_an_output_that_cannot_be_written_keeps_the_spool_and_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "lake", "1m", "ro"):
        done = run(tmp_path, STEPS, environment(tmp_path, exit_wait_seconds=1), "10", "0.001")
        assert done.returncode == 0
        assert "lake" in done.stderr and "written" in done.stderr
        (spool,) = (tmp_path / "spool").iterdir()
        log = spool / "sidecar.log"
        wait_for(lambda: "cannot be written" in log.read_text(), "the reason in the log")
    lake = wait_until_delivered(tmp_path)
    assert len(lake.rows("annotation")) == 10


def test_an_output_that_is_full_for_a_while_gets_everything_in_the_end(tmp_path: Path) -> None:
    with small_disk(tmp_path / "lake", "512k"):
        fill = tmp_path / "lake" / "fill"
        fill.write_bytes(bytes(500 * 1024))
        process = start(tmp_path, STEPS, environment(tmp_path, segment_seconds=0.2), "40", "0.05")
        wait_for(lambda: list((tmp_path / "spool").rglob("sidecar.log")), "the sidecar")
        (log,) = (tmp_path / "spool").rglob("sidecar.log")
        wait_for(lambda: "cannot be written" in log.read_text(), "a failure to write")
        fill.unlink()
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        lake = wait_until_delivered(tmp_path)
        assert len(lake.rows("annotation")) == 40
        assert lake.stray_files() == []


def test_a_spool_that_cannot_be_made_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")
    done = run(tmp_path, STEPS, environment(tmp_path), "3", "0")
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    assert "TRACELAKE_SPOOL" in done.stderr
    strict = run(tmp_path, STEPS, environment(tmp_path, strict=1), "3", "0")
    assert strict.returncode == 1


# S3 -----------------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def s3_server(port: int) -> Iterator[str]:
    """moto's server on loopback, with the bucket `profiles`."""
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: _answers(port), "the S3 server")
        url = f"http://127.0.0.1:{port}"
        client(url).create_bucket(Bucket="profiles")
        yield url
    finally:
        server.terminate()
        server.wait(10)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def client(url: str):  # type: ignore[no-untyped-def]
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="k",
                        aws_secret_access_key="s")  # fmt: skip


def fetched(url: str, tmp_path: Path) -> Lake:
    """What the bucket holds under the prefix, as a lake on disk."""
    folder = tmp_path / "fetched"
    found = client(url).list_objects_v2(Bucket="profiles", Prefix="team/lake/").get("Contents", [])
    for each in found:
        path = folder / each["Key"].removeprefix("team/lake/")
        path.parent.mkdir(parents=True, exist_ok=True)
        client(url).download_file("profiles", each["Key"], str(path))
    return Lake(folder)


def s3_environment(tmp_path: Path, url: str, **settings: object) -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_DEFAULT_REGION": "us-east-1"}
    given = environment(tmp_path, output="s3://profiles/team/lake", s3_endpoint_url=url, **settings)
    return {**given, **keys, "AWS_EC2_METADATA_DISABLED": "true"}


def test_segments_reach_s3_and_the_manifest_last(tmp_path: Path) -> None:
    with s3_server(free_port()) as url:
        done = run(tmp_path, STEPS, s3_environment(tmp_path, url), "10", "0.001")
        assert done.returncode == 0, done.stderr
        wait_until_delivered(tmp_path)
        lake = fetched(url, tmp_path)
        assert len(lake.rows("annotation")) == 10
        assert lake.closing()[0]["state"] == "completed"


def test_an_s3_server_that_comes_late_gets_everything(tmp_path: Path) -> None:
    port = free_port()
    process = start(tmp_path, STEPS, s3_environment(tmp_path, f"http://127.0.0.1:{port}", segment_seconds=0.2),
                    "100", "0.02")  # fmt: skip
    wait_for(lambda: list((tmp_path / "spool").rglob("sidecar.log")), "the sidecar")
    (log,) = (tmp_path / "spool").rglob("sidecar.log")
    wait_for(lambda: "tried again" in log.read_text(), "a refused connection")
    with s3_server(port) as url:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        wait_until_delivered(tmp_path)
        assert len(fetched(url, tmp_path).rows("annotation")) == 100


def test_a_slow_server_slows_neither_the_steps_nor_the_stop(tmp_path: Path) -> None:
    """A server that accepts and never answers: the worst kind of slow."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []
    ended = threading.Event()

    def accept() -> None:
        listener.settimeout(0.1)
        while not ended.is_set():
            try:
                held.append(listener.accept()[0])
            except TimeoutError:
                continue

    thread = threading.Thread(target=accept)
    thread.start()
    text = """
    import time
    import tracelake

    with tracelake.record():
        start = time.monotonic()
        for step in range(200):
            with tracelake.annotate(f"step_{step}"):
                pass
        print(time.monotonic() - start)
        start = time.monotonic()
    print(time.monotonic() - start)
    """
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        began = time.monotonic()
        done = run(tmp_path, text, s3_environment(tmp_path, url, exit_wait_seconds=1))
        took = time.monotonic() - began
        assert done.returncode == 0, done.stderr
        steps, stop = map(float, done.stdout.split())
        assert steps < 1 and stop < 2 and took < 15
    finally:
        ended.set()
        thread.join()
        for connection in held:
            connection.close()
        listener.close()
        _end_sidecars(tmp_path)


def _end_sidecars(tmp_path: Path) -> None:
    """The sidecar would go on trying for minutes; it is told by its spool folder on the command line."""
    found = subprocess.run(["pgrep", "-f", str(tmp_path / "spool")], capture_output=True, text=True, check=False)
    for process_id in found.stdout.split():
        if int(process_id) != os.getpid():
            subprocess.run(["kill", "-9", process_id], check=False)


def test_s3_without_boto3_is_said_at_once(tmp_path: Path) -> None:
    text = """
    import sys
    sys.modules["boto3"] = None
    import tracelake
    with tracelake.record():
        pass
    """
    done = run(tmp_path, text, s3_environment(tmp_path, "http://127.0.0.1:9", exit_wait_seconds=0))
    assert done.returncode == 0
    assert "pip install 'tracelake[s3]'" in done.stderr
    _end_sidecars(tmp_path)
