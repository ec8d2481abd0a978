"""`tracelake publish`: what is due, what is not, what is tried again; most of it without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tracelake import publish as work
from tracelake.cli import app
from tracelake.commands import UserError
from tracelake.pipelines import deliveries
from tracelake.pipelines.lake import Lake, conform
from tracelake.publish import Place, Publisher, publish
from tracelake.reports.files import href, job_file
from tracelake.reports.publish.settings import PublishSettings
from tracelake.reports.publish.targets import targets
from tracelake.schemas.catalog import table
from tracelake.settings import Settings

HOSTILE = "a/b'\"\\${env:HOME} ⟩ü"
SECOND = 10**9
DAY_NS = 1_700_000_000 * SECOND  # 2023-11-14
JOBS = (HOSTILE, "plain", "running")
FIGURES = (
    "exposed_comm_ns", "idle_ns", "kernel_busy_ratio", "comm_overlap_ratio", "tensor_core_ratio", "mfu_ratio",
    "step_count", "step_median_ns", "slow_step_count", "straggler_count", "project", "user", "family", "cloud_job_id",
)  # fmt: skip


def standing(job_id: str, **given: Any) -> dict[str, Any]:
    """A row of deliveries.standing."""
    return {
        **dict.fromkeys(FIGURES), "job_id": job_id, "attempt": 0, "state": "completed", "status": "complete",
        "tags": {}, "started_ns": 0, "ended_ns": DAY_NS, "device_time_ns": 7_200 * SECOND, "gpu_active_ratio": 0.5,
        "findings": [], "finding_count": 0, "is_publishable": True, "reasons": [], "run_id": "run 1", **given,
    }  # fmt: skip


class Nights:
    """One publication after another, with their ledger."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.settings = Settings(folder / "lake", publish=PublishSettings.from_mapping(options))
        self.targets = targets(self.settings.publish)
        self.ledger: dict[tuple[str, str], dict[str, Any]] = {}
        for name in (*map(job_file, JOBS), job_file("unfit"), "fleet-2023-11-14.html"):
            self.settings.storage.write(f"reports/{name}", b"<p>page")

    def __call__(self, *rows: dict[str, Any], place: Place | None = None, is_asked: bool = False) -> work.Published:
        publisher = Publisher(self.settings, self.targets, place or Place(), self.ledger, is_asked=is_asked)
        for row in rows:
            publisher.one(row)
        self.ledger |= {(each["job_id"], each["target"]): each for each in publisher.tries}
        return publisher.done


def test_what_is_due_is_delivered_once(tmp_path: Path, server: Any) -> None:
    night = Nights(tmp_path, base_url="https://r.example.org/pages/", webhook={"url": server.url})
    rows = [standing(HOSTILE), standing("plain"), standing("running", status="running")]
    stopped = standing("unfit", is_publishable=False, reasons=["broken key"])
    done = night(*rows, stopped, standing("new"), standing("old", is_publishable=None))
    assert (done.delivered, done.failed, done.unchanged) == ({"webhook": 3}, [], 0)
    assert [(job, why.partition(";")[0]) for job, why in done.left_out] == [
        ("unfit", "checks stop it: broken key"), ("new", "it has no page yet"), ("old", "it was not checked yet")
    ]  # fmt: skip
    sent = {body["job"]["job_id"]: body for _, body in server.received}
    assert sent[HOSTILE]["report_url"] == f"https://r.example.org/pages/{href(job_file(HOSTILE))}"
    assert sent["plain"]["fleet_url"] == "https://r.example.org/pages/fleet-2023-11-14.html"
    assert sent["running"]["job"]["is_running"] and not sent["plain"]["job"]["is_running"]
    before = dict(night.ledger)
    assert {(row["state"], row["try_count"], row["run_id"]) for row in before.values()} == {("delivered", 1, "run 1")}
    assert night(*rows).unchanged == 3
    assert (len(server.received), night.ledger) == (3, before)
    assert night(standing("running", run_id="run 2")).delivered == {"webhook": 1}
    assert night.ledger["running", "webhook"]["run_id"] == "run 2"


def test_what_failed_is_tried_again(tmp_path: Path, server: Any) -> None:
    night = Nights(tmp_path, webhook={"url": server.url})
    server.answers += [500, 500, 204]
    for tries in (1, 2):
        assert night(standing(HOSTILE)).failed == [(HOSTILE, "webhook", "the server answered 500")]
        row = night.ledger[HOSTILE, "webhook"]
        assert (row["state"], row["try_count"], row["delivered_ns"]) == ("failed", tries, None)
    assert night(standing(HOSTILE)).delivered == {"webhook": 1}
    delivered = night.ledger[HOSTILE, "webhook"]
    assert (delivered["state"], delivered["reason"], delivered["try_count"]) == ("delivered", None, 3)
    assert delivered["delivered_ns"] == delivered["tried_ns"]
    assert delivered["url"].startswith("file:///") and "%2522" in delivered["url"]
    server.answers.append(500)
    night(standing(HOSTILE, gpu_active_ratio=0.6))
    row = night.ledger[HOSTILE, "webhook"]
    assert (row["state"], row["try_count"], row["delivered_ns"]) == ("failed", 1, delivered["delivered_ns"])


def test_one_that_does_not_answer_is_not_asked_about_every_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_GIVE_UP_AFTER", 2)
    night = Nights(tmp_path, webhook={"url": "http://127.0.0.1:9/s3cret"})
    reasons = [why for _, _, why in night(*map(standing, JOBS)).failed]
    assert ["not tried" in why for why in reasons] == [False, False, True]
    assert "s3cret" not in str(night.ledger)


def test_jobs_without_a_run_there_and_trackers_without_the_run(tmp_path: Path, tracking: Any) -> None:
    night = Nights(tmp_path, mlflow={"tracking_uri": tracking.uri})
    lost = standing("plain", tags={"MLFLOW_RUN_ID": "0" * 32})
    assert night(standing("running"), lost).nothing_to_do == 2
    assert "no tag MLFLOW_RUN_ID" in night.ledger["running", "mlflow"]["reason"]
    assert night.ledger["plain", "mlflow"]["reason"] == f"no run {'0' * 32} there"
    assert night(standing("running"), lost).unchanged == 2
    # One that is named is looked for again.
    assert night(standing("running"), lost, is_asked=True).nothing_to_do == 1
    run_id = tracking.run()
    assert night(standing("plain", tags={"mlflow.run_id": run_id})).delivered == {"mlflow": 1}
    assert tracking.held(run_id)[0]["tracelake.job_id"] == "plain"


def test_pages_of_another_folder(tmp_path: Path, server: Any) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / job_file("a b")).write_text("<p>page")
    night = Nights(tmp_path, webhook={"url": server.url})
    done = night(standing("a b"), standing("plain"), place=Place(tmp_path / "out", "http://other"))
    assert (done.delivered, len(done.left_out)) == ({"webhook": 1}, 1)
    assert server.received[0][1]["report_url"] == "http://other/job-a%2520b.html"


def _put(lake: Lake, rows: Any, name: str, given: Sequence[dict[str, Any]]) -> None:
    lake.append(conform(rows(table(name), *given), table(name)), table(name))


@pytest.mark.usefixtures("one_session")
def test_the_command_over_a_lake(spark: SparkSession, rows: Any, tmp_path: Path, server: Any) -> None:
    night = Nights(tmp_path, webhook={"url": server.url})  # for its pages and settings
    lake = Lake(tmp_path / "lake")
    finding = {"job_id": "plain", "attempt": 1, "severity": "warn", "lost_ns": 3_600 * SECOND, "evidence": ["x"]}
    found = [{**finding, "finding_number": number, "title": f"no. {number}"} for number in range(7, 0, -1)]
    figures = {"status": "complete", "gpu_active_ratio": 0.5, "ended_ns": DAY_NS}
    latest = [{"job_id": job, "attempt": int(job == "plain"), **figures} for job in JOBS]
    verdicts = [{"job_id": job, "is_publishable": job != "running", "reasons": ["broken key"]} for job in JOBS]
    _put(lake, rows, "normalized.jobs", [{"job_id": job, "state": "completed", "tags": {"a": "b"}} for job in JOBS])
    _put(lake, rows, "aggregates.job_summary", [{"job_id": "plain", "gpu_active_ratio": 0.1}, *latest])
    assert {row["finding_count"] for row in deliveries.standing(lake, spark)} == {None}, "nobody looked for any"
    _put(lake, rows, "aggregates.findings", [{**finding, "attempt": 0, "finding_number": 1, "title": "old"}, *found])
    _put(lake, rows, "operations.publications", verdicts)

    conf = tmp_path / "conf.toml"
    conf.write_text(f'[publish.webhook]\nurl = "{server.url}"\n')

    def says() -> str:
        result = CliRunner().invoke(app, ["publish", "--lake", str(lake.root), "--conf", str(conf)])
        assert result.exit_code == 0, result.output
        return result.output

    server.answers.append(503)
    said = says()
    assert "Delivered: webhook 1; unchanged 0; without a run there 0" in said
    assert "running: checks stop it: broken key" in said
    assert "to webhook: the server answered 503" in said and "1 deliveries failed; the next" in said
    sent = server.received[1][1]
    assert (sent["job"]["attempt"], sent["figures"]["gpu_active_ratio"], sent["figures"]["finding_count"]) == (
        1,
        0.5,
        7,
    )
    assert [each["title"] for each in sent["findings"]] == [f"no. {n}" for n in range(1, 6)]
    assert "Delivered: webhook 1; unchanged 1" in says()
    assert server.received[2][1]["job"]["job_id"] == HOSTILE
    tries = deliveries.last_tries(lake, spark)
    assert {key: row["try_count"] for key, row in tries.items()} == {("plain", "webhook"): 1, (HOSTILE, "webhook"): 2}
    with pytest.raises(UserError, match="no job other with figures"):
        publish(night.settings, spark, ["other", "plain"])

    gone = {**tries["plain", "webhook"], "job_id": "deleted meanwhile"}
    deliveries.record(lake, spark, [gone])
    assert deliveries.last_tries(lake, spark) == tries


def test_what_is_wrong_is_said_before_anything_is_read(tmp_path: Path) -> None:
    empty = Settings(tmp_path)
    assert publish(empty) == work.Published()
    with pytest.raises(UserError, match="target wandb is not set up"):
        publish(empty, targets=["wandb"])
    (tmp_path / "c.toml").write_text("")

    def says(*given: str) -> str:
        result = CliRunner().invoke(
            app, ["publish", "--lake", str(tmp_path), "--conf", str(tmp_path / "c.toml"), *given]
        )
        assert result.exit_code == 1
        return result.output

    assert "no target is set up; the settings need" in says()
    assert "no target comet; there are mlflow" in says("--target", "comet")
    (tmp_path / "c.toml").write_text('[publish.webhook]\nurl = "http://127.0.0.1:9"\n')
    assert "--url ftp://x: give an address" in says("--url", "ftp://x")
