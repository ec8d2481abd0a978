"""The DAGs in real Airflow (four processes on loopback), with a stand-in for the lake's command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_real import Airflow

STAND_IN = Path(__file__).with_name("stand_in.sh")


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calls") / "calls"


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, calls: Path) -> Iterator[Airflow]:
    extra = {"command": str(STAND_IN), "env": {"CALLS": str(calls)}}
    # Nights that begin in 2099: no scheduled run joins those that the test starts.
    with Airflow(tmp_path_factory.mktemp("home"), extra, TRACELAKE_NIGHTLY_SINCE="2099-01-01") as started:
        yield started


def test_three_nights_by_backfill_one_after_the_other(airflow: Airflow, calls: Path) -> None:
    airflow.unpause("nightly")
    airflow.backfill("nightly", "2026-11-01T00:00:00Z", "2026-11-04T00:00:00Z")
    runs = airflow.wait("nightly", 3)
    assert [(run["run_type"], run["state"]) for run in runs] == [("backfill", "success")] * 3
    assert [run["data_interval_start"][:10] for run in runs] == ["2026-11-01", "2026-11-02", "2026-11-03"]
    assert set(airflow.tasks("nightly", runs[0]["dag_run_id"]).values()) == {"success"}
    rest = ["nightly --stage=reports --json", "nightly --stage=publish --json"]
    assert calls.read_text().splitlines() == [
        call
        for day in ("2026-11-01", "2026-11-02", "2026-11-03")
        for call in (f"nightly --stage=run --json --day={day}", *rest)
    ]
    assert [(each["name"], each["extra"]["jobs"]) for each in airflow.events()] == [("tracelake_night", ["a"])] * 3


def test_the_event_of_a_job_starts_its_page(airflow: Airflow, calls: Path) -> None:
    before = len(calls.read_text().splitlines()) if calls.exists() else 0
    airflow.unpause("job_report")
    assets = airflow.api("GET", "assets?name_pattern=tracelake_job")["assets"]
    (asset_id,) = [each["id"] for each in assets if each["name"] == "tracelake_job"]
    airflow.api("POST", "assets/events", {"asset_id": asset_id, "extra": {"job_id": "dlrm 7"}})
    (run,) = airflow.wait("job_report", 1)
    assert (run["run_type"], run["state"]) == ("asset_triggered", "success")
    assert calls.read_text().splitlines()[before:] == ["report -- dlrm 7", "nightly --stage=publish --json"]
