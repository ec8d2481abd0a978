"""What commands say on standard error: for people as before, for machines one JSON object per line without secrets."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tracelake import log
from tracelake.cli import app

RUNNER = CliRunner()


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """Begins to log as JSON; gives what was logged since it was asked last."""
    monkeypatch.setenv("TRACELAKE_LOG", "json")
    monkeypatch.setenv("HF_TOKEN", "tell-nobody-this")
    log.begin("nightly")
    yield lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    log.end()


def test_an_error_is_one_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACELAKE_LOG", "json")
    result = RUNNER.invoke(app, ["sql", "SELECT 1", "--lake", str(tmp_path)])
    said = json.loads(result.stderr)
    assert result.exit_code == 1 and result.stdout == ""
    assert (said["level"], said["event"], said["command"], said["lake"]) == ("error", "error", "sql", str(tmp_path))
    assert said["text"].startswith(str(tmp_path)) and said["time"].endswith("+00:00")
    assert log._lines() is None, "a command leaves no handler behind"


def test_for_people_it_is_text(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["sql", "SELECT 1", "--lake", str(tmp_path)])
    assert result.stderr.startswith(f"tracelake: {tmp_path}: no lake here")


def test_a_format_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACELAKE_LOG", "xml")
    result = RUNNER.invoke(app, ["version"])
    assert (result.exit_code, result.stderr) == (1, "tracelake: TRACELAKE_LOG=xml: choose text or json\n")


def test_progress_warnings_and_the_run(lines: Any) -> None:
    log.at("s3://bucket/lake")
    with log.progress("nightly") as progress:
        progress("normalized.kernels", 0.25)
        logging.getLogger("tracelake.run").info("run begins", extra={"facts": {"event": "run", "run_id": "r1"}})
        progress("operations.checks", 1)
    log.warn("incomplete", "3 of 4 [segments]")
    log.note("done", "7.0 s")
    first, _, last, warning, note = lines()
    assert (first["event"], first["share"], first["text"]) == ("progress", 0.25, "normalized.kernels")
    assert "run_id" not in first and last["run_id"] == warning["run_id"] == "r1"
    assert (warning["level"], warning["event"], warning["text"]) == ("warning", "incomplete", "3 of 4 [segments]")
    assert note["level"] == "info" and {each["lake"] for each in (first, last, note)} == {"s3://bucket/lake"}


def test_secrets_are_hidden(lines: Any) -> None:
    log.error("cannot reach https://user:pw@host/hook with tell-nobody-this")
    log.warn("left out", "api_key=abcdef")
    error, warning = lines()
    assert error["text"] == "cannot reach https://***@host/hook with ***"
    assert warning["text"] == "api_key=***"


def test_a_fault_is_one_object_with_its_traceback(lines: Any) -> None:
    with pytest.raises(SystemExit, match="1"), log.faults():
        raise ZeroDivisionError("of ours: tell-nobody-this")
    with pytest.raises(typer.Exit), log.faults():
        raise typer.Exit(1)
    (said,) = lines()
    assert said["level"] == "critical" and said["text"].endswith("ZeroDivisionError: of ours: ***")
    assert "test_log.py" in said["text"]


def test_what_other_libraries_warn_of_is_an_object_too(lines: Any) -> None:
    logging.getLogger("py4j").warning("a connection\nis gone")
    logging.getLogger("py4j").info("nobody asked")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    first, second = lines()
    assert (first["event"], first["text"]) == ("py4j", "a connection\nis gone")
    assert second["event"] == "py.warnings" and "DeprecationWarning: old" in second["text"]
