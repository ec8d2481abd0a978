"""A real S3 server on loopback (versitygw, which keeps objects as plain files), with a bucket `lakes`."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from quick import CAUSES, QUICK_JVM, conf_without

from tracelake.schemas.bucket import Bucket, S3Options, storage_at

GATEWAY = Path(__file__).parents[2] / "build" / "s3" / "versitygw"
KEY, SECRET = "tester", secrets.token_hex(8)
BUCKET = "lakes"
Command = Callable[..., "subprocess.Popen[str]"]


def environment() -> dict[str, str]:
    """What AWS's tools find, and nothing of this machine's."""
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}
    nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**kept, **keys, **nowhere, "SPARK_SUBMIT_OPTS": QUICK_JVM}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """One server process, found again at the same address after it was killed."""

    def __init__(self, folder: Path) -> None:
        if not GATEWAY.is_file():
            pytest.skip("no S3 server: `make build/s3/versitygw` builds it, where go is installed")
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / f"{folder.name}.meta").mkdir(exist_ok=True)
        self.start()
        boto3.client("s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id=KEY,
                     aws_secret_access_key=SECRET).create_bucket(Bucket=BUCKET)  # fmt: skip

    def start(self) -> None:
        command = [str(GATEWAY), "--quiet", "--port", f"127.0.0.1:{self.port}", "--region", "us-east-1", "posix"]
        if not _has_attributes(self.folder):
            command += ["--sidecar", str(self.folder.parent / f"{self.folder.name}.meta")]
        self.process = subprocess.Popen(
            [*command, str(self.folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
        )  # fmt: skip
        deadline = time.monotonic() + 20
        while not answers(self.port):
            assert self.process.poll() is None and time.monotonic() < deadline, "the S3 server does not start"
            time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def lake(self, name: str) -> Bucket:
        found = storage_at(f"s3://{BUCKET}/{name}", S3Options(self.url))
        assert isinstance(found, Bucket)
        return found

    def on_disk(self, name: str) -> Path:
        """A lake as the files that the server keeps: what Spark reads without S3."""
        return self.folder / BUCKET / name

    def conf(self, folder: Path) -> Path:
        path = folder / "s3.toml"
        path.write_text(
            f'[s3]\nendpoint_url = "{self.url}"\n\n[spark]\n"spark.driver.memory" = "2g"\n\n{conf_without(*CAUSES)}'
        )
        return path


def _has_attributes(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.tracelake", b"1")
    except OSError:
        return False
    return True
