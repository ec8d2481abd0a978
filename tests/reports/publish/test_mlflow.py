"""MLflow, with a real tracking store in SQLite."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tracelake.recorder import facts
from tracelake.reports.publish.mlflow import Mlflow
from tracelake.reports.publish.model import Delivery, DeliveryFailedError, NoSuchRunError, known_ids, note
from tracelake.reports.publish.settings import MlflowOptions

NOTE = "mlflow.note.content"
HOSTILE = "a/b'\"<script>⟩](x) \u202e${env:HOME}"


@pytest.fixture
def target(tracking: Any) -> Mlflow:
    return Mlflow(MlflowOptions(tracking_uri=tracking.uri))


def test_publishing_twice_changes_nothing(target: Mlflow, tracking: Any, delivery: Callable[..., Delivery]) -> None:
    run_id = tracking.run(note="my own words")
    told = delivery()
    target.send(told, run_id)
    tags, points, files = once = tracking.held(run_id)
    assert {name: value for name, value in tags.items() if name.startswith("tracelake.")} == {
        "tracelake.report_url": told.page_url, "tracelake.job_id": "llm-7b", "tracelake.attempt": "1",
        "tracelake.status": "completed",
    }  # fmt: skip
    assert tags[NOTE] == f"my own words\n\n{note(told)}"
    assert {name: [value for value, _, _ in each] for name, each in points.items()} == {
        "tracelake/gpu_active_ratio": [0.75], "tracelake/step_count": [400.0],
    }  # fmt: skip
    assert [told.page_url.encode() in html for html in files.values()] == [True]
    target.send(told, run_id)
    assert tracking.held(run_id) == once


def test_what_changed_is_added_and_the_users_text_stays(
    target: Mlflow, tracking: Any, delivery: Callable[..., Delivery]
) -> None:
    run_id = tracking.run()
    target.send(delivery(state="in_progress", status="running"), run_id)
    tags = tracking.held(run_id)[0]
    assert tags["tracelake.status"] == "running"
    tracking.client.set_tag(run_id, NOTE, f"above {tags[NOTE]} below")
    later = delivery(figures={"gpu_active_ratio": 0.5, "step_count": None}, fleet_url="https://r/fleet.html")
    for _ in range(2):
        target.send(later, run_id)
    tags, points, _ = tracking.held(run_id)
    assert tags[NOTE] == f"above {note(later)} below"
    assert (tags["tracelake.fleet_url"], tags["tracelake.status"]) == ("https://r/fleet.html", "completed")
    assert [value for value, _, _ in points["tracelake/gpu_active_ratio"]] == [0.75, 0.5]
    latest = tracking.client.get_run(run_id).data.metrics
    assert latest["tracelake/gpu_active_ratio"] == 0.5 and math.isnan(latest["tracelake/step_count"])


def test_a_description_that_would_not_fit_is_left_alone(
    target: Mlflow, tracking: Any, delivery: Callable[..., Delivery]
) -> None:
    run_id = tracking.run(note="x" * 4_990)
    target.send(delivery(), run_id)
    tags = tracking.held(run_id)[0]
    assert tags[NOTE] == "x" * 4_990 and tags["tracelake.report_url"]


def test_hostile_names_are_text(tracking: Any, delivery: Callable[..., Delivery]) -> None:
    run_id = tracking.run()
    told = delivery(job_id=HOSTILE, page_url='https://r/"><script>')
    Mlflow(MlflowOptions(tracking_uri=tracking.uri)).send(told, run_id)
    tags, _, files = tracking.held(run_id)
    assert tags["tracelake.job_id"] == HOSTILE
    assert [b"<script>" in html for html in files.values()] == [False]


def test_the_page_itself_or_nothing(tracking: Any, delivery: Callable[..., Delivery]) -> None:
    for artifact, held in (("page", [b"<p>whole"]), ("none", [])):
        run_id = tracking.run()
        Mlflow(MlflowOptions(tracking_uri=tracking.uri, artifact=artifact)).send(delivery(page=b"<p>whole"), run_id)
        assert list(tracking.held(run_id)[2].values()) == held


def test_runs_that_are_not_there(target: Mlflow, tracking: Any, delivery: Callable[..., Delivery]) -> None:
    with pytest.raises(NoSuchRunError, match="no run 0000"):
        target.send(delivery(), "0" * 32)
    run_id = tracking.run()
    tracking.client.delete_run(run_id)
    with pytest.raises(NoSuchRunError, match="was deleted"):
        target.send(delivery(), run_id)
    for run in ("", "***", "a b", "../../x"):
        assert target.reference(delivery(ids={"MLFLOW_RUN_ID": run})) is None


def test_a_server_that_is_down_says_so(delivery: Callable[..., Delivery], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(DeliveryFailedError, match="failed with exception") as raised:
        Mlflow(MlflowOptions(tracking_uri="http://127.0.0.1:9")).send(delivery(), "0" * 32)
    assert raised.value.is_down and len(str(raised.value)) <= 300


def test_the_recorder_finds_the_run_that_a_script_opened(
    target: Mlflow, tracking: Any, delivery: Callable[..., Delivery]
) -> None:
    import mlflow

    mlflow.set_tracking_uri(tracking.uri)
    with (
        mlflow.start_run(experiment_id=tracking.experiment) as run,
        mlflow.start_run(nested=True),
        ThreadPoolExecutor() as pool,  # as the recorder asks, from a thread of its own
    ):
        tags = pool.submit(facts.current).result()["tags"]
    assert target.reference(delivery(ids=known_ids(tags))) == run.info.run_id
    assert "MLFLOW_RUN_ID" not in facts.current()["tags"]


def test_a_jobs_own_server_is_used_where_it_is_trusted(tracking: Any, delivery: Callable[..., Delivery]) -> None:
    options = MlflowOptions(tracking_uri="http://main:5000", trusted_uris=("http://other:5000/",))
    expected = {
        "http://***@other:5000": "http://other:5000/",
        "http://evil": "http://main:5000",
        "": "http://main:5000",
    }
    for captured, used in expected.items():
        assert Mlflow(options)._uri(delivery(ids={"MLFLOW_TRACKING_URI": captured})) == used
    only = Mlflow(MlflowOptions(trusted_uris=("http://other:5000",)))
    assert only.reference(delivery(ids={"MLFLOW_RUN_ID": "a", "MLFLOW_TRACKING_URI": "http://evil"})) is None
