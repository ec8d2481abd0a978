"""The command line on good and bad input: one clear line, a non-zero exit code, nothing half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from quick import CAUSES, conf_without
from typer.testing import CliRunner

from tracelake.cli import app
from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import DAY, Truth

RUNNER = CliRunner()
KERNEL = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1_700_000_000_000_000, "dur": 10}
STEP = {
    "ph": "X",
    "cat": "user_annotation",
    "name": "step_1",
    "pid": 5,
    "tid": 5,
    "ts": 1_700_000_000_000_000,
    "dur": 40,
}
LAUNCH = {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5,
    "ts": 1_700_000_000_000_001, "dur": 2,
    "args": {"correlation": 1},
}  # fmt: skip


def _trace(path: Path) -> Path:
    events = [STEP, LAUNCH, {**KERNEL, "ts": KERNEL["ts"] + 5, "args": {"correlation": 1, "device": 0, "stream": 7}}]
    path.write_text(json.dumps({"traceEvents": events, "distributedInfo": {"rank": 0, "world_size": 1}}))
    return path


def _fails(*arguments: str) -> str:
    result = RUNNER.invoke(app, list(arguments))
    assert result.exit_code == 1, result.output
    lines = result.stderr.strip().splitlines()
    assert lines[0].startswith("tracelake: "), lines
    return " ".join(lines)


def test_a_file_that_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"hello": "world"}')
    said = _fails("import", str(tmp_path / "notes.json"), "--job", "j", "--lake", str(tmp_path / "lake"))
    assert "notes.json: not a trace" in said
    assert "give a Kineto (Chrome trace) .json or .json.gz" in said
    assert [p for p in (tmp_path / "lake").rglob("*") if p.is_file()] == []


def test_a_folder_without_traces(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no .json" in _fails("import", str(tmp_path / "empty"), "--job", "j", "--lake", str(tmp_path / "lake"))


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    assert "no such file" in _fails("import", str(tmp_path / "x.json"), "--job", "j", "--lake", str(tmp_path / "lake"))


def test_an_unknown_job_names_those_that_are_there(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    trace = _trace(tmp_path / "t.json")
    assert RUNNER.invoke(app, ["import", str(trace), "--job", "mine", "--lake", lake]).exit_code == 0
    assert "no job other" in (said := _fails("report", "other", "--lake", lake))
    assert "there are mine" in said


def test_a_folder_that_is_no_lake(tmp_path: Path) -> None:
    assert "no lake here" in _fails("report", "j", "--lake", str(tmp_path / "nowhere"))


def test_a_lake_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    trace = _trace(tmp_path / "t.json")
    said = _fails("import", str(trace), "--job", "j", "--lake", str(tmp_path / "file" / "lake"))
    assert "cannot write the lake" in said


def test_settings_that_do_not_exist(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[paramters]\n")
    assert "no table [paramters]" in _fails("jobs", "--conf", str(tmp_path / "c.toml"))
    (tmp_path / "d.toml").write_text("= 3")
    assert "not TOML" in _fails("jobs", "--conf", str(tmp_path / "d.toml"))


def test_the_wrong_java_is_named_with_the_right_one(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    lake = tmp_path / "lake"
    RUNNER.invoke(app, ["import", str(_trace(tmp_path / "t.json")), "--job", "j", "--lake", str(lake)])
    done = subprocess.run(
        [sys.executable, "-m", "tracelake", "run", "--lake", str(lake)],
        env={**os.environ, "JAVA_HOME": str(home)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "is Java 11; Spark 4.1 needs Java 17 or 21" in done.stderr
    assert not (lake / "tables").exists()


def test_a_master_that_is_none_is_one_line(tmp_path: Path) -> None:
    lake, conf = tmp_path / "lake", tmp_path / "c.toml"
    RUNNER.invoke(app, ["import", str(_trace(tmp_path / "t.json")), "--job", "j", "--lake", str(lake)])
    conf.write_text('[spark]\n"spark.master" = "bogus"\n')
    done = subprocess.run(
        [sys.executable, "-m", "tracelake", "run", "--lake", str(lake), "--conf", str(conf)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("tracelake: Spark does not start: ")
    assert "look at [spark] of the settings (spark.master is 'bogus')" in done.stderr


def test_an_option_that_makes_no_sense(tmp_path: Path) -> None:
    trace = str(_trace(tmp_path / "t.json"))
    assert "--fact colour=red" in _fails("import", trace, "--job", "j", "--fact", "colour=red")
    assert "write key=value" in _fails("import", trace, "--job", "j", "--tag", "x")


@pytest.mark.usefixtures("one_session")
def test_import_report_and_sql(tmp_path: Path) -> None:
    lake, trace = str(tmp_path / "lake"), str(_trace(tmp_path / "t.json"))
    imported = RUNNER.invoke(app, ["import", trace, "--job", "a job/1", "--tag", "team=x", "--lake", lake])
    assert "3 of 3 rows stored" in imported.output
    again = RUNNER.invoke(app, ["import", trace, "--job", "a job/1", "--lake", lake])
    assert "already in the lake" in again.output
    few, strict = tmp_path / "few.toml", tmp_path / "strict.toml"
    few.write_text(conf_without(*CAUSES))
    strict.write_text(f"{few.read_text()}slow_launch_ns = 1\n")
    reported = RUNNER.invoke(app, ["report", "a job/1", "--lake", lake, "--conf", str(few)])
    assert reported.exit_code == 0, reported.output
    page = tmp_path / "lake" / "reports" / "job-a%20job%2F1.html"
    assert str(page) in reported.output.replace("\n", "")
    assert "a job/1" in page.read_text()
    asked = RUNNER.invoke(
        app, ["sql", "SELECT duration_ns, launch_delay_ns FROM kernels", "--format", "json", "--lake", lake]
    )
    assert json.loads(asked.stdout) == [{"duration_ns": 10_000, "launch_delay_ns": 4_000}]
    assert "Spark cannot answer that" in _fails("sql", "SELECT nothing FROM nowhere", "--lake", lake)
    assert "Spark cannot answer that: [DIVIDE_BY_ZERO]" in _fails("sql", "SELECT 1 / 0", "--lake", lake)
    assert "Nothing new" in RUNNER.invoke(app, ["run", "--lake", lake]).output
    assert "no device time in the lake" in _fails("report", "fleet", "--lake", lake)
    assert "--day soon: write YYYY-MM-DD" in _fails("report", "fleet", "--day", "soon", "--lake", lake)
    slow = ["sql", "SELECT slow_launch_count AS n FROM launch_stats", "--format", "json", "--lake", lake]
    assert json.loads(RUNNER.invoke(app, slow).stdout) == [{"n": 0}]
    done = RUNNER.invoke(app, ["backfill", "--job", "a job/1", "--lake", lake, "--conf", str(strict)])
    assert "1 windows of 1 jobs: 3 rows read" in done.output, done.output
    assert json.loads(RUNNER.invoke(app, slow).stdout) == [{"n": 1}]


@pytest.mark.usefixtures("one_session")
def test_the_fleet_and_its_jobs(small_fleet: tuple[Lake, Truth], tmp_path: Path) -> None:
    lake, truth = small_fleet
    day = DAY.isoformat()
    named = [job.job_id for job in truth.jobs]
    held = {
        "fleet": (f"fleet-{day}.html", ["GPU-hours were productive.", "2\u00a0jobs"]),
        "index": ("index.html", named),
    }
    for name, (file, words) in held.items():
        said = RUNNER.invoke(app, ["report", name, "--lake", str(lake.root), "--out", str(tmp_path)])
        assert said.exit_code == 0, said.output
        assert str(tmp_path / file) in said.output.replace("\n", "")
        html = (tmp_path / file).read_text()
        assert [each for each in words if each not in html] == []
    assert "no device time on 2020-01-01" in _fails("report", "fleet", "--day", "2020-01-01", "--lake", str(lake.root))


@pytest.mark.usefixtures("one_session")
def test_files_as_spark_tasks(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    _trace(tmp_path / "in" / "a.json")
    (tmp_path / "in" / "b.json").write_text("no trace")
    lake = tmp_path / "lake"
    done = RUNNER.invoke(app, ["import", str(tmp_path / "in"), "--job", "j", "--spark", "--lake", str(lake)])
    assert done.exit_code == 1
    assert "3 of 3 rows stored" in done.output
    assert "b.json: not a trace" in done.stderr.replace("\n", " ")
    assert len(list((lake / "raw" / "v1" / "manifest").rglob("*.json"))) == 1


def test_help_has_an_example_for_every_command() -> None:
    for command in ("demo", "import", "run", "backfill", "report", "timeline", "jobs", "sql", "serve"):
        shown: Any = RUNNER.invoke(app, [command, "--help"])
        assert "Example: tracelake" in " ".join(shown.output.split()), command
