"""What each policy of conf/iam/ allows and what it must not, asked of a server that enforces IAM policies (moto's).

moto knows no condition of a listing: those are taken off here and read by eye, and are unverified against AWS.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from s3_servers import answers, free_port

from tracelake.schemas.bucket import Bucket, S3Options, storage_at
from tracelake.schemas.storage import StorageFailed

POLICIES = Path(__file__).parents[2] / "conf" / "iam"
LAKE = "team/lake"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server with the buckets `lakes` and `other`, something in each place, and a user for each policy."""
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not answers(port):
            assert server.poll() is None and time.monotonic() < deadline, "moto does not start"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


def _client(service: str, url: str) -> Any:
    return boto3.client(service, endpoint_url=url, region_name="us-east-1", aws_access_key_id="root",
                        aws_secret_access_key="root")  # fmt: skip


@pytest.fixture(scope="module")
def users(url: str) -> dict[str, dict[str, str]]:
    """The credentials of a user for each policy; from then on the server asks for them."""
    s3, iam = _client("s3", url), _client("iam", url)
    for bucket, key in (("lakes", f"{LAKE}/raw/v1/kernel/a"), ("lakes", f"{LAKE}/tables/a"), ("lakes", "secret/a"),
                        ("lakes", f"{LAKE}/reports/a.html"), ("lakes", f"{LAKE}/.lease"), ("other", "a")):  # fmt: skip
        if bucket not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
            s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    found = {}
    for path in sorted(POLICIES.glob("*.json")):
        text = path.read_text().replace("BUCKET", "lakes").replace("PREFIX", LAKE)
        policy = json.loads(text)
        for statement in policy["Statement"]:
            statement.pop("Condition", None)
        iam.create_user(UserName=path.stem)
        iam.put_user_policy(UserName=path.stem, PolicyName="it", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=path.stem)["AccessKey"]
        found[path.stem] = {
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }
    ask = urllib.request.Request(f"{url}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
    urllib.request.urlopen(ask).close()
    return found


@pytest.fixture
def lake(url: str, users: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bucket]:
    """The lake, or another place, as a user sees it."""

    def seen(user: str, place: str = f"lakes/{LAKE}") -> Bucket:
        for name, value in users[user].items():
            monkeypatch.setenv(name, value)
        found = storage_at(f"s3://{place}", S3Options(url))
        assert isinstance(found, Bucket)
        return found

    return seen


def _delete(found: Bucket, *keys: str) -> None:
    """One by one: of a request for several keys moto asks whether the bucket itself may be deleted from."""
    for key in keys:
        with found._asking(key) as client:
            client.delete_object(Bucket=found.bucket, Key=f"{found.prefix}/{key}".lstrip("/"))


def _refused(*acts: Callable[[], object]) -> None:
    for act in acts:
        with pytest.raises(StorageFailed, match=r"access is denied; the credentials need the rights of conf/iam/"):
            act()


def _elsewhere(lake: Callable[..., Bucket], user: str) -> None:
    """Nobody touches what is not the lake's."""
    for place in ("lakes/secret", "other"):
        found = lake(user, place)
        _refused(lambda found=found: found.read("a"), lambda found=found: found.write("b", b""),
                 lambda found=found: _delete(found, "a"))  # fmt: skip
    _refused(lambda: lake(user, "other").holds(""))


def test_a_recorder_puts_raw_data_and_nothing_else(lake: Callable[..., Bucket], tmp_path: Path) -> None:
    found = lake("recorder")
    found.write("raw/v1/kernel/b", b"x")
    (tmp_path / "large").write_bytes(os.urandom(9 << 20))
    found.put(tmp_path / "large", "raw/v1/kernel/large")
    _refused(
        lambda: found.read("raw/v1/kernel/a"), lambda: list(found.files()), lambda: _delete(found, "raw/v1/kernel/a"),
        lambda: found.write("tables/b", b""), lambda: found.write("reports/b", b""), lambda: found.write(".lease", b""),
    )  # fmt: skip
    _elsewhere(lake, "recorder")


def test_a_pipeline_does_all_in_its_lake(lake: Callable[..., Bucket], tmp_path: Path) -> None:
    found = lake("pipeline")
    assert found.read("raw/v1/kernel/a") == b"x" and found.holds("tables")
    found.write("tables/b", b"x")
    (tmp_path / "large").write_bytes(os.urandom(9 << 20))
    found.put(tmp_path / "large", "tables/large")
    _delete(found, "tables/b", "tables/large")
    assert found.size("tables/b") is None
    tag = found.create("lease-of-test", b"1")
    assert tag and found.exchange("lease-of-test", b"2", tag)
    _elsewhere(lake, "pipeline")


def test_an_analyst_only_reads(lake: Callable[..., Bucket]) -> None:
    found = lake("analyst")
    assert found.read("tables/a") == b"x" and found.read("raw/v1/kernel/a") == b"x" and found.holds("raw")
    _refused(*[lambda key=key: found.write(key, b"") for key in ("raw/v1/b", "tables/a", "reports/a.html", ".lease")])
    _refused(lambda: _delete(found, "tables/a"), lambda: found.create("new", b""))
    _elsewhere(lake, "analyst")


def test_a_publisher_writes_pages(lake: Callable[..., Bucket]) -> None:
    found = lake("publisher")
    assert found.read("tables/a") == b"x" and found.read("reports/a.html") == b"x"
    found.write("reports/b.html", b"x", "text/html")
    _refused(lambda: found.write("tables/a", b""), lambda: found.write("raw/v1/a", b""),
             lambda: found.read("raw/v1/kernel/a"), lambda: _delete(found, "reports/a.html", "tables/a"))  # fmt: skip
    _elsewhere(lake, "publisher")


@pytest.mark.parametrize("policy", sorted(POLICIES.glob("*.json")), ids=lambda path: path.stem)
def test_listings_are_limited_to_the_lake(policy: Path) -> None:
    """What moto cannot enforce is at least written down: no policy lists a whole bucket, none has a wildcard action."""
    for statement in json.loads(policy.read_text())["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert not any("*" in action for action in actions)
        if "s3:ListBucket" in actions:
            prefixes = statement["Condition"]["StringLike"]["s3:prefix"]
            assert prefixes and all(prefix.startswith("PREFIX") for prefix in prefixes)
        else:
            assert all(each.startswith("arn:aws:s3:::BUCKET/PREFIX/") for each in statement["Resource"])
