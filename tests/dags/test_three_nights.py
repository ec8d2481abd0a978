"""Three nights of a fleet through real Airflow and the whole pipeline, then the second night again.

Tables, pages, MLflow and notifications are looked at after each. The commands run in the Spark session of the tests.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow_real import Airflow
from checksums import Checksums, checksums
from nights import DAYS, SLOW_NODE_ID, STEPS, Nights
from pyspark.sql import SparkSession
from quick import conf_without
from resident import Resident
from servers import Hook
from typer.testing import CliRunner

from tracelake.cli import app
from tracelake.pipelines.lake import Lake
from tracelake.reports.files import fleet_file, job_file

MINUTES = 60
COMMANDS = 3
"""Of a night."""
SCHEDULE = {"TRACELAKE_NIGHTLY_SINCE": str(DAYS[0]), "TRACELAKE_NIGHTLY": f"30 1 {DAYS[0].day}-{DAYS[2].day + 1} 11 *"}
"""Three data intervals, all past: the scheduler starts their runs one after the other."""
LEFT_OUT = tuple(
    f"aggregates.{name}"
    for name in ("what_if", "stream_queues", "annotation_histogram", "collective_matches",
                 "critical_path")
)  # fmt: skip
"""What neither findings nor the fleet's day rest on."""


class Store:
    """A real MLflow store in SQLite."""

    def __init__(self, folder: Path) -> None:
        from mlflow import MlflowClient

        self.uri = f"sqlite:///{folder / 'mlflow.db'}"
        with warnings.catch_warnings():
            # MLflow 3.17 on SQLAlchemy 2.1.
            warnings.filterwarnings("ignore", "The ``noload`` loader strategy is deprecated")
            self.client = MlflowClient(tracking_uri=self.uri)
        self._experiment = self.client.create_experiment("train", artifact_location=(folder / "artifacts").as_uri())

    def run(self) -> str:
        return str(self.client.create_run(self._experiment).info.run_id)

    def held(self, run_id: str) -> tuple[dict[str, str], dict[str, list[float]]]:
        """Tags, and every value of each metric."""
        data = self.client.get_run(run_id).data
        values = {name: [m.value for m in self.client.get_metric_history(run_id, name)] for name in data.metrics}
        return dict(data.tags), values


class World:
    """The lake, Airflow, and who is told. A night's first command waits until the test lets it."""

    def __init__(self, lake: Lake, spark: SparkSession, conf: Path) -> None:
        self.lake, self.spark, self._conf = lake, spark, conf
        self.calls: list[list[str]] = []
        self._may_run = threading.Semaphore(0)
        self._is_over = False
        self.failed: list[str] = []
        self._ended = 0
        self.airflow: Airflow
        self.hook: Hook

    def command(self, words: list[str]) -> tuple[int, str]:
        if "--stage=run" in words:
            self._may_run.acquire()
        if self._is_over:
            return 1, "the test is over"
        self.calls.append(words)
        done = CliRunner().invoke(app, [*words, "--conf", str(self._conf)])
        self.failed += [done.output] if done.exit_code else []
        return done.exit_code, done.output

    def close(self) -> None:
        """Let go of a command that waits."""
        self._is_over = True
        self._may_run.release()

    def night(self, runs: int) -> None:
        """Let one night go on to its end; so many runs have ended well by then."""
        self._ended += COMMANDS
        self._may_run.release()
        deadline = time.monotonic() + 20 * MINUTES
        while len(self.calls) < self._ended:
            assert not self.failed and time.monotonic() < deadline, (self.failed, self.airflow.logs())
            time.sleep(0.2)
        ended = self.airflow.wait("nightly", runs, 20 * MINUTES)
        states = {run["dag_run_id"]: self.airflow.tasks("nightly", run["dag_run_id"]) for run in ended}
        assert [run["state"] for run in ended] == ["success"] * runs, states

    def said(self) -> dict[str, Any]:
        """The last message to people."""
        return self.hook.got["/told"][-1]

    def rows(self, sql: str) -> list[dict[str, Any]]:
        self.lake.register(self.spark)
        return [row.asDict() for row in self.spark.sql(sql).collect()]

    def tables(self) -> Checksums:
        """What the raw data comes to; ledgers note each try."""
        found = checksums(self.lake, self.spark)
        return {name: each for name, each in found.items() if not name.startswith("operations.")}

    def pages(self) -> set[str]:
        return {path.name for path in (self.lake.root / "reports").iterdir()}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    pytest.importorskip("mlflow", reason="MLflow's client is absent: pip install 'tracelake[tracking]'")
    return Store(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture(scope="module")
def world(
    one_session: SparkSession, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[World, Nights]]:
    folder = tmp_path_factory.mktemp("nights")
    lake, conf = Lake(folder / "lake"), folder / "conf.toml"
    conf.write_text(f'{conf_without(*LEFT_OUT)}\n[publish.mlflow]\ntracking_uri = "{store.uri}"\n')
    made = World(lake, one_session, conf)
    with Hook() as made.hook, Resident(folder / "socket", made.command) as resident:
        extra = {
            "command": resident.command, "lake": str(lake.root),
            "notify": [{"kind": "webhook", "url": f"{made.hook.url}/told"}],
        }  # fmt: skip
        with Airflow(folder / "airflow", extra, **SCHEDULE) as made.airflow:
            made.airflow.unpause("nightly")
            yield made, Nights(lake.root, folder / "scratch")
            made.close()


def test_three_nights_and_the_second_again(world: tuple[World, Nights], store: Store) -> None:
    fleet, nights = world
    runs = {name: store.run() for name in ("first", "slower")}

    nights.one({"mlflow.run_id": runs["first"]})
    fleet.night(1)
    _first(fleet, store, runs["first"])

    nights.two({"mlflow.run_id": runs["slower"]})
    fleet.night(2)
    _second(fleet, store, runs)

    nights.three()
    fleet.night(3)
    _third(fleet)

    _second_night_again(fleet, store, runs)


def _first(fleet: World, store: Store, run_id: str) -> None:
    assert [call[1] for call in fleet.calls] == ["--stage=run", "--stage=reports", "--stage=publish"]
    states = {row["job_id"]: row for row in fleet.rows("SELECT * FROM v_jobs")}
    assert set(states) == {*(f"nightly-bert-{n}" for n in range(1, 6)), "llm-a", "llm-b", "live", "resumed", "late",
                           "broken"}  # fmt: skip
    assert {job_file(name) for name in states} | {fleet_file(DAYS[0].isoformat()), "index.html"} <= fleet.pages()
    assert _steps(fleet, "live") == STEPS // 2
    assert fleet.rows("SELECT ranks_seen_count AS n FROM job_summary WHERE job_id = 'late'") == [{"n": 1}]
    aside = fleet.rows("SELECT job_id, reason FROM quarantine")
    assert {row["job_id"] for row in aside} == {"broken"}
    assert fleet.rows("SELECT * FROM v_suspect_nodes") == []
    told = fleet.said()
    assert told["kind"] == "findings" and "input incomplete" in told["title"]
    assert "llm-a" in told["text"] and SLOW_NODE_ID in told["text"]
    tags, values = store.held(run_id)
    assert tags["tracelake.report_url"].endswith(job_file("nightly-bert-1"))
    assert all(len(each) == 1 for each in values.values()) and "tracelake/gpu_active_ratio" in values


def _second(fleet: World, store: Store, runs: dict[str, str]) -> None:
    # Its work is that of the four jobs that it brought: the others' windows are not taken in again.
    taken = fleet.rows("SELECT jobs FROM runs WHERE command = 'nightly' ORDER BY started_ns DESC LIMIT 1")
    assert taken == [{"jobs": ["late", "llm-c", "nightly-bert-6", "resumed"]}]
    (suspect,) = fleet.rows("SELECT node_id, job_count FROM v_suspect_nodes")
    assert suspect == {"node_id": SLOW_NODE_ID, "job_count": 3}
    assert fleet.rows("SELECT ranks_seen_count AS n FROM job_summary WHERE job_id = 'late'") == [{"n": 2}]
    attempts = fleet.rows("SELECT attempt FROM job_summary WHERE job_id = 'resumed' ORDER BY attempt")
    assert [row["attempt"] for row in attempts] == [0, 1]
    assert _verdict(fleet) == "INCONCLUSIVE"
    tags, _ = store.held(runs["slower"])
    assert tags["tracelake.report_url"].endswith(job_file("nightly-bert-6"))
    # A page that shows what it showed before is not told of again.
    assert all(len(each) == 1 for each in store.held(runs["first"])[1].values())


def _third(fleet: World) -> None:
    assert _steps(fleet, "live") == STEPS
    assert _verdict(fleet) == "REGRESSION"
    assert {fleet_file(day.isoformat()) for day in DAYS} <= fleet.pages()
    names = [event["name"] for event in fleet.airflow.events()]
    assert names.count("tracelake_night") == 3


def _second_night_again(fleet: World, store: Store, runs: dict[str, str]) -> None:
    """Its run once more, with nothing new, then its backfill, which makes the tables of that day again."""
    before, held = fleet.tables(), store.held(runs["slower"])
    pages = {path: path.read_bytes() for path in (fleet.lake.root / "reports").glob("*.html")}
    (second,) = [run for run in fleet.airflow.runs("nightly") if run["data_interval_start"][:10] == str(DAYS[1])]
    fleet.airflow.clear("nightly", second["dag_run_id"])
    fleet.night(3)
    assert fleet.tables() == before
    assert {path: path.read_bytes() for path in pages} == pages
    day = f"{DAYS[1]}T00:00:00Z", f"{DAYS[2]}T00:00:00Z"
    fleet.airflow.backfill("nightly", *day, {"again": True}, again=True)
    fleet.night(3)
    assert ["nightly", "--stage=run", "--json", f"--day={DAYS[1]}", "--again"] == fleet.calls[-3][:5]
    assert fleet.tables() == before
    assert store.held(runs["slower"]) == held
    # Of findings, and of no task that failed.
    assert {told["kind"] for told in fleet.hook.got["/told"]} == {"findings"}


def _steps(fleet: World, job_id: str) -> int:
    (row,) = fleet.rows(f"SELECT step_count FROM job_summary WHERE job_id = '{job_id}'")
    return int(row["step_count"])


def _verdict(fleet: World) -> str:
    (row,) = fleet.rows("SELECT verdict FROM v_regressions WHERE job_id = 'nightly-bert-6'")
    return str(row["verdict"])
