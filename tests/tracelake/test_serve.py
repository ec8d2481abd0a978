"""`tracelake serve` with a real client: pyspark's remote session, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tracelake.cli import app
from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth
from tracelake.schemas.catalog import table

PATIENCE = 120
TOKEN = "a-password"
CLIENT = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(json.dumps([[list(row) for row in spark.sql(each).collect()] for each in sys.argv[2:]]))
"""


@contextmanager
def _served(lake: Lake, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that is ready, and its address. It leads a process group, as in a terminal or under systemd."""
    command = [sys.executable, "-m", "tracelake", "serve", "--port", "0", "--lake", str(lake.root), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, **environment}, cwd=lake.root,
    ) as process:  # fmt: skip
        try:
            assert process.stdout
            said = process.stdout.readline()
            found = re.match(r"Serving (sc://localhost:\d+); connect with SparkSession", said)
            assert found, said
            yield process, found[1]
        finally:
            process.kill()


def _ask(address: str, *queries: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", CLIENT, address, *queries],
        capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, "GRPC_VERBOSITY": "NONE"},
    )  # fmt: skip


def _listening(port: str) -> set[str]:
    """Local addresses on which somebody listens at a port, as the kernel writes them."""
    lines = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()]
    places = [line[1].split(":") for line in lines if line[3] == "0A"]
    return {address for address, at in places if int(at, 16) == int(port)}


def test_a_remote_session_asks_the_views_until_a_signal(small_fleet: tuple[Lake, Truth], tmp_path: Path) -> None:
    lake, truth = Lake(tmp_path / "lake"), small_fleet[1]
    shutil.copytree(small_fleet[0].root, lake.root)
    late = Path(lake.path(table("aggregates.kernel_stats"))).rename(tmp_path / "late")
    with _served(lake, "--idle-hours", "0", SPARK_CONNECT_AUTHENTICATE_TOKEN=TOKEN) as (process, address):
        assert _listening(address.rpartition(":")[2]) <= {"0100007F", "0000000000000000FFFF00000100007F"}
        asked = _ask(
            f"{address}/;token={TOKEN}",
            "SELECT count(*) FROM kernels",
            "SELECT job_id, device_count FROM v_jobs ORDER BY job_id",
            "DESCRIBE v_waste",
            "SELECT count(*) FROM normalized.kernels",
        )
        assert asked.returncode == 0, asked.stderr
        kernels, jobs, columns, by_layer = json.loads(asked.stdout)
        assert kernels == by_layer == [[sum(job.counts["kernel"] for job in truth.jobs)]]
        assert jobs == sorted([job.job_id, len(job.devices)] for job in truth.jobs)
        assert ["job_id", "string", "The training job."] in columns
        late.rename(lake.path(table("aggregates.kernel_stats")))
        until = time.monotonic() + PATIENCE
        while _ask(f"{address}/;token={TOKEN}", "SELECT count(*) > 0 FROM v_kernel_time").stdout != "[[[true]]]\n":
            assert time.monotonic() < until, "a table that was written while serving does not appear"
        refused = _ask(address, "SELECT 1")
        assert refused.returncode != 0
        assert "UNAUTHENTICATED" in refused.stderr
        os.killpg(process.pid, signal.SIGTERM)  # Spark gets it too
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "Ended: stopped.\n")
    assert "Traceback" not in err


def test_it_ends_when_nobody_asks(small_fleet: tuple[Lake, Truth]) -> None:
    with _served(small_fleet[0], "--idle-hours", "0.001") as (process, _):
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "Ended: no query for 0.001 hours.\n")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [("--port", "70000", "choose 1 to 65535"), ("--idle-hours", "-1", "give hours, or 0 for never")],
)
def test_options_that_make_no_sense(small_fleet: tuple[Lake, Truth], option: str, value: str, said: str) -> None:
    result = CliRunner().invoke(app, ["serve", option, value, "--lake", str(small_fleet[0].root)])
    assert result.exit_code == 1
    assert result.stderr.strip().startswith(f"tracelake: {option} {value}: {said}")
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_port_that_is_taken_is_said_before_spark_starts(small_fleet: tuple[Lake, Truth]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", "--port", str(port), "--lake", str(small_fleet[0].root)])
    assert result.exit_code == 1
    assert result.stderr.strip() == f"tracelake: 127.0.0.1:{port}: address already in use; choose another --port"


def test_a_folder_that_is_no_lake(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["serve", "--lake", str(tmp_path / "nowhere")])
    assert result.exit_code == 1
    assert "no lake here" in result.stderr
