"""Servers and commands of the S3 tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_servers import Command, Server, environment


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("s3") / "data")
    yield found
    found.kill()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """One for tests that kill it."""
    found = Server(tmp_path / "own")
    yield found
    found.kill()


@pytest.fixture
def tracelake(tmp_path: Path) -> Iterator[Command]:
    """`tracelake(server, lake, "run", …)` in a process of its own; those still running at the end are killed."""
    started: list[subprocess.Popen[str]] = []

    def start(server: Server, lake: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tracelake", *arguments, "--lake", f"s3://{lake}"]
        process = subprocess.Popen(
            [*command, "--conf", str(server.conf(tmp_path))], env={**environment(), **(env or {})}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait(10)
