"""The two storages do the same; what only S3 has: pages of listings, parts of uploads, conditional puts, refusals."""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from s3_servers import Server

from tracelake.schemas.bucket import Bucket, S3Options, storage_at
from tracelake.schemas.storage import Folder, Storage, StorageFailed, Stored


@pytest.fixture(params=["folder", "bucket"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, server: Server) -> Storage:
    return Folder(tmp_path / "lake") if request.param == "folder" else server.lake(f"storage/{tmp_path.name}")


def test_files_are_written_listed_read_and_removed(storage: Storage, tmp_path: Path) -> None:
    assert not storage.holds("") and not list(storage.files()) and storage.folders() == []
    storage.write("a/job=b%2Fc d/x.json", b"{}")
    (tmp_path / "file").write_bytes(b"12345")
    storage.put(tmp_path / "file", "a/y")
    storage.write("b/z", b"")
    storage.write("a-b", b"")
    assert list(storage.files()) == [
        Stored("a-b", 0),
        Stored("a/job=b%2Fc d/x.json", 2),
        Stored("a/y", 5),
        Stored("b/z", 0),
    ]
    assert list(storage.files("a/job=b%2Fc d")) == [Stored("a/job=b%2Fc d/x.json", 2)]
    assert storage.folders() == ["a", "b"] and storage.folders("a") == ["a/job=b%2Fc d"] and storage.folders("q") == []
    assert storage.holds("a") and not storage.holds("a/jo")
    assert storage.holds("a", ".json") and not storage.holds("b", ".json")
    assert storage.read("a/y") == b"12345" and storage.size("a/y") == 5 and storage.size("a/n") is None
    storage.write("a/y", b"new")
    assert storage.below("a").read("y") == b"new"
    assert [file.key for file in storage.below("a").files()] == ["job=b%2Fc d/x.json", "y"]
    storage.delete(["a-b", "a/y", "a/job=b%2Fc d/x.json", "a/never"])
    assert [file.key for file in storage.files()] == ["b/z"] and storage.folders() == ["b"]
    for act in (lambda: storage.read("gone"), lambda: storage.open("gone")):
        with pytest.raises(StorageFailed, match="gone: "):
            act()


def test_parts_of_a_file_are_read(storage: Storage, tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array(range(100_000)), "b": pa.array(os.urandom(8).hex() for _ in range(100_000))})
    pq.write_table(rows, tmp_path / "rows", row_group_size=10_000)
    storage.put(tmp_path / "rows", "rows")
    with storage.open("rows") as opened, pq.ParquetFile(opened) as file:
        assert file.metadata.num_rows == 100_000
        assert file.read_row_group(7, ["a"])["a"].to_pylist() == list(range(70_000, 80_000))


def test_a_storage_goes_to_other_processes(storage: Storage) -> None:
    storage.write("a", b"1")
    assert pickle.loads(pickle.dumps(storage)).read("a") == b"1"


def test_more_keys_than_a_page_holds(server: Server) -> None:
    lake = server.lake("many")
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: lake.write(f"folder-{n:04d}/k", b"x"), range(1203)))
    assert [file.key for file in lake.files()] == [f"folder-{n:04d}/k" for n in range(1203)]
    assert len(lake.folders()) == 1203
    lake.delete(file.key for file in lake.files())
    assert not lake.holds("")


def test_marks_of_empty_folders_are_no_files(server: Server) -> None:
    """Other tools put a key that ends in / for a folder: Spark does, where it was about to write a table's log."""
    lake = server.lake("marked")
    lake.write("table/_delta_log/_staged_commits/", b"")
    assert not lake.holds("table") and not list(lake.files())


def test_a_large_file_goes_in_parts(server: Server, tmp_path: Path) -> None:
    content = os.urandom(20 << 20)
    (tmp_path / "large").write_bytes(content)
    lake = server.lake("parts")
    lake.put(tmp_path / "large", "large")
    found = lake.tagged("large")
    assert found is not None and found.data == content
    assert found.etag.strip('"').endswith("-3"), "the tag of an object of three parts"


def test_one_of_many_writers_creates(server: Server) -> None:
    lake = server.lake("conditions")
    with ThreadPoolExecutor(8) as pool:
        for race in range(5):
            tags = list(pool.map(lambda n, key=f"race-{race}": lake.create(key, f"{n}".encode()), range(8)))
            assert sum(tag is not None for tag in tags) == 1
    (first,) = [tag for tag in (lake.create("x", b"1"),) if tag]
    second = lake.exchange("x", b"2", first)
    assert second and lake.exchange("x", b"3", first) is None and lake.exchange("absent", b"3", first) is None
    found = lake.tagged("x")
    assert found is not None and found.data == b"2" and found.etag == second and -2 <= found.age_seconds < 5
    assert lake.tagged("absent") is None


# What S3 refuses ----------------------------------------------------------------------------------------------------


def _said(bucket: Bucket) -> str:
    began = time.monotonic()
    with pytest.raises(StorageFailed) as failed:
        list(bucket.files("raw"))
    assert time.monotonic() - began < 15
    assert "\n" not in str(failed.value) and bucket.url("raw") in str(failed.value)
    return str(failed.value)


def test_a_wrong_secret_is_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert "the credentials are refused; check the key and secret" in _said(server.lake("x"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    assert "the credentials are refused; check the key and secret" in _said(server.lake("x"))


def test_no_credentials_are_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "no credentials; set AWS_ACCESS_KEY_ID" in _said(server.lake("x"))


def test_an_unknown_bucket_is_said(server: Server) -> None:
    found = storage_at("s3://never-made/lake", S3Options(server.url))
    assert isinstance(found, Bucket)
    assert "no such bucket; create it" in _said(found)


def test_a_server_that_is_not_there_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        found = storage_at("s3://lakes/x", S3Options(f"http://127.0.0.1:{taken.getsockname()[1]}"))
        assert isinstance(found, Bucket)
        assert "the server does not answer" in _said(found)


class _Expired(BaseHTTPRequestHandler):
    """S3's documented answer to a token that has run out: no S3 server that runs here issues such tokens."""

    def do_GET(self) -> None:
        body = b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>expired</Message></Error>"
        self.send_response(400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def expired() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Expired) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_expired_credentials_are_said(expired: str) -> None:
    found = storage_at("s3://lakes/x", S3Options(expired))
    assert isinstance(found, Bucket)
    assert "the credentials have expired; renew them and do it again (ExpiredToken)" in _said(found)


@pytest.mark.parametrize("location", ["gs://bucket/lake", "s3:/bucket", "s3://", "file:///lake"])
def test_other_locations_are_refused(location: str) -> None:
    with pytest.raises(ValueError, match="give a folder or s3://bucket/prefix"):
        storage_at(location)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"access_key": "x"}, "no setting access_key"), ({"path_style": "yes"}, "give true or false"),
     ({"region": 1}, "give text")],
)  # fmt: skip
def test_settings_of_s3_are_checked(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        S3Options.from_mapping(given)
