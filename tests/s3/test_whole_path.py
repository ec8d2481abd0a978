"""A lake in a bucket, from recorder and importer to pages and deletion: the same tables as in a folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import recorded
from checksums import Checksums, checksums
from pyspark.sql import SparkSession
from quick import run
from s3_servers import BUCKET, Command, Server, environment

from tracelake.pipelines.jars import JarsMissing, class_path
from tracelake.pipelines.lake import Lake
from tracelake.pipelines.lease import KEY, LEASE_SECONDS
from tracelake.recorder.importers.trace_file import ImportOptions, import_file
from tracelake.recorder.segments import local_lake
from tracelake.schemas.manifest import RAW_FOLDER, manifests

UPKEEP = Path(__file__).with_name("upkeep.py")
STEPS = """
import time
import tracelake

with tracelake.record():
    for step in range(5):
        with tracelake.annotate(f"step_{step}"):
            time.sleep(0.01)
"""
TS = 1_700_000_000_000_000
EVENTS = (
    {"ph": "X", "cat": "user_annotation", "name": "step_1", "pid": 5, "tid": 5, "ts": TS, "dur": 40},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": TS + 1, "dur": 2,
     "args": {"correlation": 1}},
    {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "name": "k", "ts": TS + 5, "dur": 10,
     "args": {"correlation": 1, "device": 0, "stream": 7}},
    {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "name": "late", "ts": TS + 90, "dur": -3,
     "args": {"correlation": 2, "device": 0, "stream": 7}},
)  # fmt: skip


def _trained(rank: int) -> dict[str, object]:
    """A rank's trace: 20 steps of a copy, 30 kernels with their launches, and a wait."""
    events: list[dict[str, object]] = []
    for step in range(20):
        at = TS + step * 1000 + rank
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 5, "tid": 5,
                       "ts": at, "dur": 950})  # fmt: skip
        for number in range(32):
            correlation, start = step * 100 + number, at + 10 + number * 25
            kind, called = ("gpu_memcpy", "cudaMemcpyAsync") if number == 0 else ("kernel", "cudaLaunchKernel")
            name = "Memcpy HtoD (Pinned -> Device)" if number == 0 else f"ampere_sgemm_{32 << number % 3}x32_nn"
            more = {"bytes": 4096 * (1 + step)} if number == 0 else {"grid": [8, 1, 1], "block": [128, 1, 1]}
            events.append({"ph": "X", "cat": "cuda_runtime", "name": called, "pid": 5, "tid": 5, "ts": start, "dur": 3,
                           "args": {"correlation": correlation}})  # fmt: skip
            events.append({"ph": "X", "cat": kind, "name": name, "pid": 0, "tid": 7, "ts": start + 5 + step % 3,
                           "dur": 15 + rank,
                           "args": {"correlation": correlation, "device": 0, "stream": 7, **more}})  # fmt: skip
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 5, "tid": 5,
                       "ts": at + 850, "dur": 40, "args": {"correlation": step * 100 + 99}})  # fmt: skip
    return {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    try:
        class_path(s3=True)
    except JarsMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def raw(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The raw data of the lake `whole`, which recorder and importer have written to the bucket; a copy."""
    folder, lake = tmp_path_factory.mktemp("raw"), server.lake("whole")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        with local_lake(lake) as aside:
            for rank in range(2):
                trace = folder / f"rank-{rank}.json"
                trace.write_text(json.dumps(_trained(rank)))
                import_file(trace, aside, ImportOptions("trained"))
        given = recorded.environment(folder, output=lake.name, s3_endpoint_url=server.url, job_id="recorded")
        done = recorded.run(folder, STEPS, {**given, **environment(), **_recorder(given)})
        assert done.returncode == 0, done.stderr
        recorded.wait_until_delivered(folder)
        traces = server.lake("traces")
        traces.write("rank-0.json", json.dumps({"traceEvents": EVENTS}).encode())
        command = [sys.executable, "-m", "tracelake", "import", f"s3://{BUCKET}/traces/*.json", "--job", "imported"]
        conf = ["--lake", lake.name, "--conf", str(server.conf(folder))]
        for told in ("rows stored", "already in the lake"):
            said = subprocess.run([*command, *conf], env=environment(), capture_output=True, text=True, check=False)
            assert said.returncode == 0 and told in said.stdout, said.stderr
            assert f"s3://{BUCKET}/traces/rank-0.json: " in said.stdout
        assert {manifest.job_id for _, manifest in manifests(lake.below(RAW_FOLDER))} >= {"recorded", "imported"}
    return shutil.copytree(server.on_disk("whole") / "raw", folder / "lake" / "raw").parent


def _recorder(given: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if name.startswith("TRACELAKE_")}


@pytest.fixture(scope="module")
def local(raw: Path, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Checksums:
    """What one run makes of it in a folder."""
    lake = Lake(tmp_path_factory.mktemp("local") / "lake")
    shutil.copytree(raw / "raw", lake.root / "raw")
    run(lake, spark)
    return checksums(lake, spark)


def test_a_server_that_dies_and_two_runs_at_once_end_in_the_tables_of_one_run(
    server: Server, raw: Path, local: Checksums, spark: SparkSession, tracelake: Command
) -> None:
    """The first run loses its server on the way; of the two after it one does the work and the other waits."""
    first = tracelake(server, f"{BUCKET}/whole", "run")
    deadline = time.monotonic() + 240
    while len(list((server.on_disk("whole") / "tables").glob("*/*/_delta_log/*.json"))) < 4:
        assert first.poll() is None and time.monotonic() < deadline, first.communicate()
        time.sleep(0.05)
    server.kill()
    _, err = first.communicate(timeout=120)
    server.start()
    assert first.returncode == 1
    (line,) = [line for line in err.splitlines() if line.startswith("tracelake:")]
    assert f"s3://{BUCKET}/whole" in line and "the server does not answer" in line
    assert "Traceback" not in err
    _end_lease(server, "whole")
    runs = [tracelake(server, f"{BUCKET}/whole", "run") for _ in range(2)]
    ended = [process.communicate(timeout=600) for process in runs]
    assert [process.returncode for process in runs] == [0, 0], ended
    waited = [err for _, err in ended if "waiting for it to end" in err]
    assert len(waited) == 1 and "is held by `tracelake run` on " in waited[0]
    assert sorted("Nothing new." in out for out, _ in ended) == [False, True]
    lake = Lake(server.on_disk("whole"))
    assert checksums(lake, spark) == local
    assert lake.read(spark, "operations.runs").filter("status = 'succeeded'").count() == 2


def test_pages_upkeep_and_deletion(server: Server, raw: Path, spark: SparkSession, tmp_path: Path) -> None:
    """The other commands, in one process with one session, on the lake that the runs have written."""
    lake, on_disk = server.lake("whole"), Lake(server.on_disk("whole"))
    before = checksums(on_disk, spark)
    command = [sys.executable, str(UPKEEP), lake.name, str(server.conf(tmp_path))]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["report"].strip() == f"{lake.name}/reports/job-imported.html"
    assert said["page"] == ["text/html; charset=utf-8", True]
    assert {"imported", "recorded"} < set(said["sql"].splitlines())
    assert re.search(r"ok +lease +free", said["doctor"]) and "those of S3A" in said["doctor"]
    assert "Tables: " in said["maintain"]
    (entry,) = json.loads(said["quarantine"])
    assert entry["file"] == f"s3://{BUCKET}/traces/rank-0.json" and '"name": "late"' in entry["original"]
    assert "imported: " in said["delete-job"] and "2 pages deleted" in said["delete-job"]
    assert "no such bucket; create it" in said["unknown bucket"]
    code, refusal = said["no wait"]
    assert code == 1 and f"{lake.name}: held by `upkeep.py {lake.name}` on " in refusal and "run again when" in refusal
    assert "held by `upkeep.py" in said["held"]
    assert "taken over by `tracelake run` on elsewhere (process 1) since now; stopped before" in said["lost"]
    assert not [file.key for file in lake.files() if "imported" in file.key]
    after = checksums(on_disk, spark)
    for name, (rows, _) in before.items():
        assert after[name][0] <= rows
    assert on_disk.read(spark, "normalized.jobs").filter("job_id = 'imported'").isEmpty()


def _end_lease(server: Server, lake: str) -> None:
    """The dead run's lease ends after a minute without renewal: let that minute have passed."""
    at = time.time() - LEASE_SECONDS - 5
    os.utime(server.on_disk(lake) / KEY, (at, at))


def test_a_command_that_may_not_says_so_at_once(server: Server, raw: Path, tracelake: Command) -> None:
    """Before Spark starts: each within seconds, in one line that names the place."""
    cases: Iterator[tuple[str, dict[str, str], str]] = iter(
        [
            (f"{BUCKET}/whole", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "the credentials are refused"),
            (f"{BUCKET}/never", {}, "no lake here; import traces first"),
            ("never-made/lake", {}, "no such bucket; create it"),
        ]
    )
    for lake, env, told in cases:
        began = time.monotonic()
        process = tracelake(server, lake, "run", env=env)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1 and time.monotonic() - began < 20
        assert len(err.splitlines()) == 1 and f"s3://{lake}" in err and told in err, err
