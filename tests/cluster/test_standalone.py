"""A standalone Spark cluster of separate processes: the same commands, the same tables."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from checksums import checksums
from pyspark.sql import SparkSession
from quick import MOST, QUICK_JVM, conf_without, run_without

from tracelake.pipelines.jars import class_path
from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))},
    "SPARK_HOME": str(SPARK_HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_SUBMIT_OPTS": QUICK_JVM,
    "PYSPARK_PYTHON": "/nonexistent/python",  # the tables are made without Python on the workers
    "PYSPARK_DRIVER_PYTHON": sys.executable,
}


@dataclass(frozen=True)
class Cluster:
    """A master that answers at `url`, and where its processes log."""

    url: str
    logs: Path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder, port = tmp_path_factory.mktemp("cluster"), _free_port()
    url = f"spark://127.0.0.1:{port}"
    host = ["--host", "127.0.0.1", "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", *host, "--cores", "1", "--memory", "1g"]
    commands = {
        "master": ["org.apache.spark.deploy.master.Master", *host, "--port", str(port)],
        **{f"worker{n}": [*worker, "--work-dir", str(folder / f"work{n}"), url] for n in range(WORKERS)},
    }
    started = []
    for name, command in commands.items():
        with (folder / f"{name}.log").open("w") as log:
            program = [str(SPARK_HOME / "bin/spark-class"), *command]
            started.append(subprocess.Popen(program, env=ENVIRONMENT, stdout=log, stderr=log))
    deadline = time.monotonic() + 60
    while (folder / "master.log").read_text().count("Registering worker") < WORKERS:
        assert all(process.poll() is None for process in started) and time.monotonic() < deadline
        time.sleep(0.1)
    yield Cluster(url, folder)
    for process in reversed(started):
        process.terminate()
    for process in started:
        process.wait(30)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is shipped, built from a copy: a build in place leaves files that a later one takes in."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("tracelake", "recorder", "pipelines", "schemas", "reports"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--wheel-dir", str(copy / "dist"), str(copy)], check=True, cwd=copy)
    return next((copy / "dist").glob("tracelake-*.whl"))


@pytest.fixture
def lake(small_fleet: tuple[Lake, Truth], tmp_path: Path) -> Lake:
    """The raw data of the small fleet, in a lake that no one has processed."""
    shutil.copytree(small_fleet[0].root / "raw", tmp_path / "lake" / "raw")
    return Lake(tmp_path / "lake")


def test_a_submitted_run_makes_the_tables_that_a_local_one_makes(
    cluster: Cluster, wheel: Path, lake: Lake, small_fleet: tuple[Lake, Truth], spark: SparkSession, tmp_path: Path
) -> None:
    conf = tmp_path / "conf.toml"
    conf.write_text(conf_without(*MOST))
    command = [
        str(SPARK_HOME / "bin/spark-submit"), "--master", cluster.url, "--executor-memory", "700m",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.sql.shuffle.partitions=2",
        "--conf", f"spark.executor.extraJavaOptions={QUICK_JVM}",
        "--jars", ",".join(map(str, class_path())), "--py-files", str(wheel),
        str(ROOT / "conf/submit.py"), "run", "--lake", str(lake.root), "--conf", str(conf),
    ]  # fmt: skip
    done = subprocess.run(command, env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rows read = " in done.stdout
    used = (cluster.logs / "master.log").read_text()
    assert used.count("Launching executor") >= WORKERS
    local = Lake(tmp_path / "local")
    shutil.copytree(small_fleet[0].root / "raw", local.root / "raw")
    run_without(*MOST)(local, spark)
    assert checksums(lake, spark) == checksums(local, spark)


def test_the_program_joins_a_cluster_that_the_settings_name(
    cluster: Cluster, small_fleet: tuple[Lake, Truth], tmp_path: Path
) -> None:
    settings = tmp_path / "conf.toml"
    settings.write_text(
        f'[spark]\n"spark.master" = "{cluster.url}"\n"spark.executor.memory" = "700m"\n'
        '"spark.driver.host" = "127.0.0.1"\n"spark.sql.shuffle.partitions" = "2"\n'
    )
    query = "SELECT count(*) AS n, count(DISTINCT job_id) AS jobs FROM kernels"
    command = [sys.executable, "-m", "tracelake", "sql", query, "--format", "json", "--conf", str(settings)]
    done = subprocess.run(
        [*command, "--lake", str(small_fleet[0].root)],
        env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert '"jobs": 2' in done.stdout


def test_spark_without_delta_is_one_clear_line(cluster: Cluster, lake: Lake, wheel: Path, tmp_path: Path) -> None:
    command = [
        str(SPARK_HOME / "bin/spark-submit"), "--master", "local[1]", "--py-files", str(wheel),
        str(ROOT / "conf/submit.py"), "run", "--lake", str(lake.root),
    ]  # fmt: skip
    done = subprocess.run(command, env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    # spark-submit passes on what the program says as its own output.
    (said,) = [line for line in done.stdout.splitlines() if line.startswith("tracelake: ")]
    assert "give spark-submit its jars with --jars" in said
