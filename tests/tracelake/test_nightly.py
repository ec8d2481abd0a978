"""The night: which pages it makes, what survives failures, what it says. On a copy of a lake that was run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tracelake.cli import app
from tracelake.due import Due, due, note_made
from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth
from tracelake.reports.files import fleet_file, job_file

RUNNER = CliRunner()
pytestmark = pytest.mark.usefixtures("one_session")


@pytest.fixture(scope="module")
def lake(small_fleet: tuple[Lake, Truth], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    copy = tmp_path_factory.mktemp("nightly") / "lake"
    shutil.copytree(small_fleet[0].root, copy)
    return Lake(copy)


def _night(lake: Lake, *options: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """(the line of JSON, everything else that was printed)."""
    result = RUNNER.invoke(app, ["nightly", "--json", "--lake", str(lake.root), *options])
    assert result.exit_code == code and isinstance(result.exception, SystemExit | type(None)), result.output
    *said, last = result.stdout.splitlines()
    return json.loads(last), "\n".join([*said, result.stderr])


def test_a_night_from_the_first_page_to_nothing_new(
    lake: Lake, spark: SparkSession, small_fleet: tuple[Lake, Truth]
) -> None:
    jobs = sorted(job.job_id for job in small_fleet[1].jobs)
    days = list(due(lake, spark).days)
    # One page cannot be written: a folder is in its place.
    reports = lake.root / "reports"
    (reports / job_file(jobs[0]) / "in the way").mkdir(parents=True)

    told, said = _night(lake, "--stage", "run")
    assert (told["windows"], told["jobs"], told["pages"]) == (0, jobs, [])
    assert told["finding_count"] == len(told["findings"]) > 0
    assert {each["job_id"] for each in told["findings"]} <= set(jobs)
    assert told["failed_check_count"] == told["unpublishable_count"] == 0

    told, said = _night(lake, "--stage", "reports", code=1)
    assert [each["page"] for each in told["failed_pages"]] == [f"job {jobs[0]}"]
    assert f"1 pages were not made, run again: job {jobs[0]}: " in said
    made = [Path(page).name for page in told["pages"]]
    assert made == [*map(job_file, jobs[1:]), *map(fleet_file, days), "index.html"]

    shutil.rmtree(reports / job_file(jobs[0]))
    told, _ = _night(lake, "--stage", "reports")
    assert [Path(page).name for page in told["pages"]] == [job_file(jobs[0])]
    assert told["failed_pages"] == []

    told, said = _night(lake)
    assert said.strip() == "Nothing new."
    assert (told["jobs"], told["pages"], told["windows"]) == ([], [], 0)
    told, said = _night(lake, "--day", "2020-01-01")
    assert said.strip() == "Nothing new on 2020-01-01."


def test_what_is_due_follows_runs_and_pages(
    spark: SparkSession, small_fleet: tuple[Lake, Truth], tmp_path: Path
) -> None:
    jobs = sorted(job.job_id for job in small_fleet[1].jobs)
    pages = {job_file(job): job for job in jobs}
    lake = Lake(shutil.copytree(small_fleet[0].root, tmp_path / "lake"))
    before = due(lake, spark)
    assert sorted(before.jobs) == jobs and before.days and before.index == max(before.jobs.values())
    for name in (*pages, *map(fleet_file, before.days), "index.html"):
        (lake.root / "reports").mkdir(exist_ok=True)
        (lake.root / "reports" / name).touch()
    note_made(lake, spark, [(page, job, before.jobs[job]) for page, job in pages.items()])
    note_made(lake, spark, [(fleet_file(day), None, run) for day, run in before.days.items()])
    note_made(lake, spark, [("index.html", None, before.index)])
    assert due(lake, spark) == Due({}, {}, None)
    # A page that is gone, and one that shows an older run.
    (lake.root / "reports" / job_file(jobs[0])).unlink()
    day = min(before.days)
    note_made(lake, spark, [(fleet_file(day), None, "0")])
    assert due(lake, spark) == Due({jobs[0]: before.jobs[jobs[0]]}, {day: before.days[day]}, None)


def test_bad_options_and_no_lake_are_one_line(lake: Lake, tmp_path: Path) -> None:
    for options, words in (
        (["--stage", "silver"], "--stage silver: choose run, reports or publish"),
        (["--stage", "reports", "--again"], "--again is about the tables"),
        (["--day", "yesterday"], "--day yesterday: write YYYY-MM-DD"),
        (["--lake", str(tmp_path / "nowhere")], "no lake here; import traces first"),
    ):
        result = RUNNER.invoke(app, ["nightly", "--json", "--lake", str(lake.root), *options])
        assert result.exit_code == 1 and words in result.stderr, result.output
        assert len(result.stderr.strip().splitlines()) == 1 and result.stdout == ""
