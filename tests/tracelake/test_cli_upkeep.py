"""Upkeep on the command line: quarantine, doctor, maintain and delete-job over one small lake."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from quick import CAUSES, conf_without
from typer.testing import CliRunner

from tracelake.cli import app
from tracelake.pipelines import deliveries
from tracelake.pipelines.lake import Lake
from tracelake.schemas.catalog import table, tables
from tracelake.schemas.operations.deliveries import TABLE as DELIVERIES
from tracelake.schemas.render.rows import filled

RUNNER = CliRunner()
pytestmark = pytest.mark.usefixtures("one_session")
TS = 1_700_000_000_000_000
DEVICE = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
EVENTS = (
    {"ph": "X", "cat": "user_annotation", "name": "step_1", "pid": 5, "tid": 5, "ts": TS, "dur": 40},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": TS + 1, "dur": 2,
     "args": {"correlation": 1}},
    {**DEVICE, "name": "k", "ts": TS + 5, "dur": 10, "args": {"correlation": 1, "device": 0, "stream": 7}},
    {**DEVICE, "name": "late", "ts": TS + 90, "dur": -3, "args": {"correlation": 2, "device": 0, "stream": 7}},
)  # fmt: skip


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "t.json"
    path.write_text(json.dumps({"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": EVENTS}))
    return path


@pytest.fixture(scope="module")
def lake(one_session: SparkSession, tmp_path_factory: pytest.TempPathFactory, trace: Path) -> Path:
    lake = tmp_path_factory.mktemp("upkeep") / "lake"
    _says(lake, "import", str(trace), "--job", "faulty")
    _says(lake, "run")
    return lake


def _says(lake: Path, *arguments: str, code: int = 0) -> str:
    conf = lake.parent / "few.toml"
    conf.write_text(conf_without(*CAUSES))
    settings = () if "--conf" in arguments else ("--conf", str(conf))
    result = RUNNER.invoke(app, [*arguments, *settings, "--lake", str(lake)])
    assert result.exit_code == code, result.output
    return result.output if code == 0 else result.stderr + result.stdout


def _marks(said: str) -> dict[str, str]:
    return {line[5:19].strip(): line[:5].strip() for line in said.splitlines()}


def test_quarantine_shows_the_bytes_and_hands_the_window_back(lake: Path, trace: Path) -> None:
    listed = list(csv.DictReader(_says(lake, "quarantine", "list", "--format", "csv").splitlines()))
    assert [(row["number"], row["job_id"], row["reason"]) for row in listed] == [("1", "faulty", "negative_duration")]
    shown = json.loads(_says(lake, "quarantine", "show", "1", "--format", "json"))
    assert shown == json.loads(_says(lake, "quarantine", "show", "--file", str(trace), "--format", "json"))
    assert '"late"' in shown[0]["original"]
    assert shown[0]["original"] in _says(lake, "quarantine", "show", "1")
    assert "ends before it starts" in shown[0]["remedy"]
    assert "no entry 2" in _says(lake, "quarantine", "show", "2", code=1)
    assert "number of an entry" in _says(lake, "quarantine", "show", code=1)
    assert "--format xml: choose table" in _says(lake, "quarantine", "list", "--format", "xml", code=1)
    assert "0 windows" in _says(lake, "quarantine", "retry", "--job", "other")
    assert _marks(_says(lake, "doctor"))["not taken in"] == "ok"
    assert "1 windows are taken in again" in _says(lake, "quarantine", "retry", "--job", "faulty")
    said = _says(lake, "doctor")
    assert "1 windows of faulty are not in the tables" in said
    marks = _marks(said)
    assert marks["not taken in"] == "warn"
    assert {
        marks[name] for name in ("versions", "Java", "jars", "raw data", "lease", "Spark", "tables", "last run")
    } == {"ok"}


def test_maintain_says_what_it_did(lake: Path, tmp_path: Path) -> None:
    said = _says(lake, "maintain")
    assert "Retention: 0 jobs; 0 rows of tables and 0 files, 0.0 MiB of raw data removed" in said
    (tmp_path / "c.toml").write_text("[retention]\nraw_days = -1\n")
    assert "[retention]: raw_days = -1; give" in _says(lake, "maintain", "--conf", str(tmp_path / "c.toml"), code=1)


def test_a_deleted_job_can_be_imported_again(lake: Path, trace: Path, spark: SparkSession) -> None:
    told = {"job_id": "faulty", "target": "webhook", "state": "delivered"}
    values = filled(DELIVERIES, told)
    deliveries.record(Lake(lake), spark, [dict(zip(DELIVERIES.column_names, values, strict=True))])
    assert "no job other in" in _says(lake, "delete-job", "other", "--yes", code=1)
    assert RUNNER.invoke(app, ["delete-job", "faulty", "--lake", str(lake)], input="n\n").exit_code == 1
    assert "faulty: " in _says(lake, "delete-job", "faulty", "--yes")
    for name, declared in tables().items():
        if (lake / "tables" / declared.layer / declared.short_name).exists() and "job_id" in declared.column_names:
            path = str(lake / "tables" / declared.layer / declared.short_name)
            assert spark.read.format("delta").load(path).isEmpty(), name
    on_disk = [path for path in lake.rglob("*") if path.is_file() and "_delta_log" not in path.parts]
    assert [path for path in on_disk if b"faulty" in path.read_bytes()] == []
    assert "no job faulty" in _says(lake, "delete-job", "faulty", "--yes", code=1)
    assert "3 of 4 rows stored" in _says(lake, "import", str(trace), "--job", "faulty")
    assert "4 rows read = 3 stored + 1 quarantined" in _says(lake, "run")


def test_doctor_names_what_is_wrong_and_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    said = _says(lake, "doctor", "--no-spark", code=1)
    assert "no lake here; import traces first" in said
    bad = lake / "raw" / "v1" / "manifest" / "day=2026-01-02" / "job=j"
    bad.mkdir(parents=True)
    for name in ("a.json", "b.json"):
        (bad / name).write_text("{")
    (tmp_path / "jars").mkdir()
    for jar in ("delta-spark_4.1_2.13-4.3.1.jar", "delta-storage-4.3.1.jar"):
        (tmp_path / "jars" / jar).write_bytes(b"tampered")
    monkeypatch.setenv("TRACELAKE_JARS", str(tmp_path / "jars"))
    said = _says(lake, "doctor", code=1)
    assert f"not manifests: {bad / 'a.json'}, {bad / 'b.json'}; delete them" in said
    assert "is not the pinned jar; run" in said
    marks = _marks(said)
    assert (marks["raw data"], marks["jars"], marks["lake"]) == ("fail", "fail", "ok")
    assert "Spark" not in marks


def test_doctor_says_who_an_older_table_waits_for(tmp_path: Path, spark: SparkSession, rows: object) -> None:
    runs = table("operations.runs")
    (tmp_path / "raw").mkdir()
    older = rows(runs, {"status": "failed", "error": "ValueError: no", "ended_ns": TS * 1000}).drop("error")
    older.write.format("delta").save(str(tmp_path / "tables" / "operations" / "runs"))
    said = _says(tmp_path, "doctor", code=1)
    assert "the next write adds operations.runs.error" in said
    assert "failed 2023-11-14 22:13:20 UTC" in said


def test_help_has_an_example() -> None:
    for command in (["maintain"], ["delete-job"], ["doctor"], *(["quarantine", c] for c in ("list", "show", "retry"))):
        shown = RUNNER.invoke(app, [*command, "--help"])
        assert "Example: tracelake" in " ".join(shown.output.split()), command
