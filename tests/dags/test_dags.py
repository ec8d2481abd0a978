"""The DAGs in Airflow's own environment, by `dag.test()`: one process plays them all, since each start takes 15 s."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow_real import ROOT, airflow_python, environment
from servers import Hook

STAND_IN = Path(__file__).with_name("stand_in.sh")
PLAY = Path(__file__).with_name("play.py")
PARSE = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from airflow.dag_processing.dagbag import DagBag
import airflow.sdk, airflow.sdk.log, airflow.timetables.interval
start = time.process_time()
bag = DagBag(sys.argv[1], safe_mode=False)
from tracelake_dags.gate import refused
old = refused("nightly", "the runbook", "2.11.0")
heavy = [name for name in ("pyspark", "delta", "pyarrow", "pandas", "tracelake") if name in sys.modules]
told = {dag.dag_id: {
    "doc": dag.doc_md, "catchup": dag.catchup, "runs": dag.max_active_runs, "tasks": {
        task.task_id: [task.retries, task.retry_exponential_backoff, task.execution_timeout.total_seconds(),
                       bool(task.on_failure_callback)] for task in dag.tasks}} for dag in bag.dags.values()}
print(json.dumps({"errors": bag.import_errors, "dags": told, "heavy": heavy, "old": [old.doc_md, old.task_ids],
                  "seconds": time.process_time() - start}))
"""


def test_they_parse_without_the_lake_and_open_with_a_runbook(tmp_path: Path) -> None:
    command = [airflow_python(), "-c", PARSE, str(ROOT / "dags")]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path))
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["errors"] == {} and found["heavy"] == []
    assert set(found["dags"]) == {"nightly", "job_report", "maintenance"}
    for name, dag in found["dags"].items():
        assert dag["runs"] == 1 and dag["catchup"] is False, name
        for task, (_, backs_off, seconds, notifies) in dag["tasks"].items():
            assert backs_off and seconds > 0 and notifies, (name, task)
            assert f"| `{task}` |" in dag["doc"], f"the runbook of {name} has no line for {task}"
        assert any(task[0] == 3 for task in dag["tasks"].values()), name
    words, tasks = found["old"]
    assert words.startswith("Airflow 2.11.0 is too old for tracelake's DAGs: install 3.3.2")
    assert "the runbook" in words and tasks == ["airflow_is_too_old"]


@dataclass
class Played:
    """What became of a DAG: its run's state, its tasks, how the command line was called, what the hook was told."""

    state: str
    tasks: dict[str, Any]
    calls: list[str]
    told: list[dict[str, Any]]

    def states(self) -> dict[str, str]:
        return {name: each["state"] for name, each in self.tasks.items()}


NOBODY = [{"kind": "slack", "url": "http://127.0.0.1:9/secret"}]
SCENARIOS: dict[str, tuple[str, dict[str, Any] | None, dict[str, Any]]] = {
    "good": ("nightly", {}, {}),
    "by hand": ("nightly", {}, {"day": "2026-11-02", "again": True}),
    "no connection": ("nightly", None, {}),
    "no program": ("nightly", {"command": "/no/such/program"}, {}),
    "wrong key": ("nightly", {"comand": "x"}, {}),
    "process fails": ("nightly", {"env": {"FAIL": "--stage=run"}}, {}),
    "reports fail": ("nightly", {"env": {"FAIL": "--stage=reports"}}, {}),
    "nobody listens": ("nightly", {"env": {"FAIL": "--stage=publish"}, "notify": NOBODY}, {}),
    "one job": ("job_report", {"lake": "s3://bucket/lake", "conf": "c.toml"}, {"job": "--help me"}),
    "no job": ("job_report", {}, {}),
    "upkeep": ("maintenance", {}, {}),
    "sick": ("maintenance", {"env": {"FAIL": "doctor"}}, {}),
}  # fmt: skip


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Played], str]:
    """(what became of each scenario, the whole log)."""
    folder = tmp_path_factory.mktemp("airflow")
    with Hook() as hook:
        asked = []
        for name, (dag, extra, conf) in SCENARIOS.items():
            usual = {"command": str(STAND_IN), "notify": [{"kind": "webhook", "url": f"{hook.url}/{name.split()[-1]}"}]}
            given = None if extra is None else {**usual, **extra}
            if given is not None:
                given["env"] = {"CALLS": str(folder / name), **given.get("env", {})}
            asked.append({"dag": dag, "extra": given, "conf": conf})
        ran = subprocess.run(
            [airflow_python(), str(PLAY), json.dumps(asked)],
            capture_output=True, text=True, env=environment(folder / "home"),
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    answers = json.loads(ran.stdout.splitlines()[-1])
    found = {}
    for name, answer in zip(SCENARIOS, answers, strict=True):
        calls = (folder / name).read_text().splitlines() if (folder / name).exists() else []
        found[name] = Played(**answer, calls=calls, told=hook.got.get(f"/{name.split()[-1]}", []))
    return found, ran.stdout + ran.stderr


Story = tuple[dict[str, Played], str]


def test_a_night_starts_spark_three_times_and_tells_what_it_found(played: Story) -> None:
    good = played[0]["good"]
    assert good.state == "success" and set(good.states().values()) == {"success"}
    assert good.calls == [f"nightly --stage={stage} --json" for stage in ("run", "reports", "publish")]
    (message,) = good.told
    assert message["kind"] == "findings"
    assert "1 jobs may not be published, 1 findings (3 windows, 1 jobs)" in message["title"]
    assert message["lines"] == [
        "job a may not be published: kernels: key",
        "job a: Rank 3 is slow (25% of its device time)",
    ]
    assert message["details"]["jobs"] == ["a"]


def test_a_day_by_hand(played: Story) -> None:
    assert played[0]["by hand"].calls[0] == "nightly --stage=run --json --day=2026-11-02 --again"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no connection", "no connection tracelake: add one of type generic with extra"),
        ("no program", "cannot start /no/such/program (No such file or directory); set command or submit"),
        ("wrong key", "its extra has comand, and may have command, submit, lake"),
    ],
)
def test_what_is_not_set_up_is_said_at_once(played: Story, name: str, words: str) -> None:
    run = played[0][name]
    assert run.state == "failed"
    assert run.tasks["process"]["state"] == "failed" and run.tasks["process"]["tries"] == 1
    assert run.states()["publish"] == run.states()["night"] == "upstream_failed"
    assert words in played[1]


def test_a_failure_is_tried_again_then_told(played: Story) -> None:
    run = played[0]["process fails"]
    assert run.state == "failed"
    assert run.states() == {
        "ingest": "success", "process": "failed", "checks": "upstream_failed", "reports": "upstream_failed",
        "publish": "upstream_failed", "night": "upstream_failed",
    }  # fmt: skip
    assert run.calls == ["nightly --stage=run --json"] * 4
    (message,) = [each for each in run.told if "process" in each["title"]]
    assert (message["kind"], message["title"]) == ("task_failed", "nightly.process failed")
    assert message["lines"][0].endswith("ended with 1: no answer from the lake")
    assert "a line before" in message["text"]
    assert message["details"]["try_number"] == 4


def test_pages_that_fail_do_not_stop_publication_and_the_night_is_not_green(played: Story) -> None:
    run = played[0]["reports fail"]
    assert run.state == "failed"
    states = run.states()
    assert (states["reports"], states["publish"], states["night"]) == ("failed", "success", "upstream_failed")


def test_a_notifier_that_is_down_changes_nothing_and_keeps_its_address(played: Story) -> None:
    run = played[0]["nobody listens"]
    assert run.states() == {
        "ingest": "success", "process": "success", "checks": "success", "reports": "success", "publish": "failed",
        "night": "upstream_failed",
    }  # fmt: skip
    assert "notify, entry 1 (slack): URLError: not told: nightly.publish failed" in played[1]
    assert "127.0.0.1:9/secret" not in played[1]


def test_a_job_has_its_page_now(played: Story) -> None:
    run = played[0]["one job"]
    assert run.state == "success"
    assert run.calls == [
        "report --lake s3://bucket/lake --conf c.toml -- --help me",
        "nightly --stage=publish --json --lake s3://bucket/lake --conf c.toml",
    ]
    assert played[0]["no job"].states()["jobs"] == "failed"
    assert "no job: give the parameter job, or an event" in played[1]


def test_upkeep(played: Story) -> None:
    assert played[0]["upkeep"].calls == ["maintain", "doctor"]
    assert played[0]["upkeep"].state == "success"
    assert (played[0]["sick"].state, played[0]["sick"].states()["doctor"]) == ("failed", "failed")
    assert any(each["title"] == "maintenance.doctor failed" for each in played[0]["sick"].told)
