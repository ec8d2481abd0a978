"""What monitoring reads: the figures of real ledgers, the text that Prometheus parses, and the rules over it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from tracelake.cli import app
from tracelake.metrics import Facts, LastRun, RunCount, Target, Verdicts, text
from tracelake.pages import query_of
from tracelake.pipelines.lake import Lake, conform
from tracelake.reports.runs_data import DayOfRuns, FailedDeliveries, runs_data
from tracelake.schemas.catalog import table

ALERTS = Path(__file__).parents[2] / "conf" / "alerts.yml"
START_NS = 1_795_829_400_000_000_000  # 2026-11-28 01:30 UTC
DAY_NS = 86_400_000_000_000
MINUTE_NS = 60_000_000_000
HOSTILE = 'a"b\\c\nd'
FACTS = Facts(
    lake=HOSTILE,
    last=(
        LastRun("nightly", "failed", START_NS, START_NS + 90 * MINUTE_NS, 3, 12, 1_000, 900, 50, 30, 20,
                {"normalize": "12.5"}, {"passed": "40", "failed": "2"}, START_NS - DAY_NS, 30e9 * 60),
        LastRun("run", "succeeded", START_NS, START_NS + MINUTE_NS, 0, 0, 0, 0, 0, 0, 0, {}, {}, None, None),
    ),
    counts=(RunCount("nightly", "failed", 1, 900, 50, 30, 20), RunCount("nightly", "succeeded", 9, 100, 0, 0, 0)),
    targets=(Target("mlflow", 4), Target("wandb", 0)),
    verdicts=Verdicts(7, 1),
    due_count=2,
)  # fmt: skip


def _samples(told: str) -> dict[tuple[str, ...], float]:
    """Values by name and labels, without the lake's."""
    found = {}
    for family in text_string_to_metric_families(told):
        for sample in family.samples:
            of_labels = (value for name, value in sorted(sample.labels.items()) if name != "lake")
            found[(sample.name, *of_labels)] = sample.value
    return found


def test_the_text_is_what_prometheus_reads() -> None:
    told = text(FACTS)
    families = list(text_string_to_metric_families(told))
    assert {sample.labels["lake"] for family in families for sample in family.samples} == {HOSTILE}
    assert all(family.documentation and family.type in ("gauge", "counter") for family in families)
    found = _samples(told)
    assert found["tracelake_last_run_duration_seconds", "nightly"] == 5_400
    assert found["tracelake_usual_run_duration_seconds", "nightly"] == 1_800
    assert found["tracelake_last_success_timestamp_seconds", "nightly"] == (START_NS - DAY_NS) / 1e9
    assert ("tracelake_last_success_timestamp_seconds", "run") not in found
    assert found["tracelake_last_run_stage_seconds", "nightly", "normalize"] == 12.5
    assert [found["tracelake_last_run_status", "nightly", s] for s in ("succeeded", "incomplete", "failed")] == [
        0,
        0,
        1,
    ]
    assert found["tracelake_last_run_rows", "nightly", "quarantined"] == 50
    assert found["tracelake_last_run_checks", "nightly", "failed"] == 2
    assert found["tracelake_last_run_checks", "nightly", "error"] == 0
    assert found["tracelake_rows_total", "stored"] == 1_000
    assert found["tracelake_runs_total", "nightly", "succeeded"] == 9
    assert (found["tracelake_unpublishable_jobs",], found["tracelake_jobs_due",]) == (1, 2)
    assert found["tracelake_failed_deliveries", "mlflow"] == 4


def test_every_alert_is_about_a_metric_that_is_exported() -> None:
    exported = {name for name, *_ in _samples(text(FACTS))}
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    named = [set(re.findall(r"tracelake_\w+", rule["expr"])) for rule in rules]
    assert set().union(*named) <= exported
    for rule, of_rule in zip(rules, named, strict=True):
        assert of_rule or "node_textfile_mtime_seconds" in rule["expr"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "remedy"}
        # Labels that are chosen are ones that are told.
        for label, value in re.findall(r'(\w+)=~?"([\w|]+)"', rule["expr"]):
            told = re.findall(rf'{label}="(\w+)"', text(FACTS))
            assert set(value.split("|")) <= set(told), f"{rule['alert']}: {label}"


def test_without_a_lake_it_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["metrics", "--lake", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (1, "") and "no lake here" in result.stderr


@pytest.fixture
def lake(rows: Callable[..., DataFrame], one_session: SparkSession, tmp_path: Path) -> Lake:
    """Ledgers of five nights, the last of which failed, and of a report."""

    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "there").touch()
    lake = Lake(tmp_path)
    # Back from the last: nights of 10, 20, 40 and 30 minutes; the one of 40 found nothing new.
    nights = [_run(number, minutes) for number, minutes in enumerate((10, 20, 40, 30, 50))]
    nights[0] |= {"status": "failed", "error": "out of space", "checks": {}}
    nights[2] |= {"source_count": 0}
    report = _run(0, 1) | {"run_id": "9", "command": "report"}
    delivery = {"job_id": "a", "state": "failed", "reason": "503", "run_id": _run(1, 1)["run_id"], "tried_ns": START_NS}
    given: dict[str, list[dict[str, Any]]] = {
        "operations.runs": [*nights, report],
        "operations.deliveries": [
            delivery | {"target": "mlflow", "try_count": 3},
            delivery | {"target": "wandb", "state": "delivered", "reason": None},
        ],
        "operations.publications": [{"job_id": "a"}, {"job_id": "b", "is_publishable": False}],
    }
    for name, of_table in given.items():
        declared = table(name)
        defaults = {"is_publishable": True} if name.endswith("publications") else {}
        frame = rows(declared, *(defaults | row for row in of_table))
        lake.replace(conform(frame, declared), declared, "true")
    return lake


def _run(back: int, minutes: int) -> dict[str, Any]:
    started = START_NS - back * DAY_NS
    return {
        "run_id": f"{started:020d}", "command": "nightly", "status": "succeeded", "error": None,
        "started_ns": started, "ended_ns": started + minutes * MINUTE_NS, "jobs": ["a", "b", "c", "d"],
        "source_count": 4, "rows_read_count": 100, "rows_stored_count": 90, "rows_quarantined_count": 5,
        "rows_deduplicated_count": 3, "rows_skipped_count": 2, "seconds": {"check": "7.5"}, "checks": {"passed": "9"},
    }  # fmt: skip


def test_the_figures_of_real_ledgers(lake: Lake, spark: SparkSession) -> None:
    out = lake.root / "textfiles" / "tracelake.prom"
    result = CliRunner().invoke(app, ["metrics", "--lake", str(lake.root), "--out", str(out)])
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    found = _samples(out.read_text())
    assert found["tracelake_last_run_status", "nightly", "failed"] == 1
    assert found["tracelake_last_run_duration_seconds", "nightly"] == 600
    assert found["tracelake_usual_run_duration_seconds", "nightly"] == 1_800  # of 20, 30 and 50 minutes
    assert found["tracelake_last_success_timestamp_seconds", "nightly"] == (START_NS - DAY_NS + 20 * MINUTE_NS) / 1e9
    assert ("tracelake_usual_run_duration_seconds", "report") not in found
    assert found["tracelake_last_run_jobs", "nightly"] == 4
    assert found["tracelake_runs_total", "nightly", "succeeded"] == 4
    assert found["tracelake_rows_total", "quarantined"] == 30
    assert (found["tracelake_jobs",], found["tracelake_unpublishable_jobs",]) == (2, 1)
    assert (found["tracelake_failed_deliveries", "mlflow"], found["tracelake_failed_deliveries", "wandb"]) == (1, 0)
    assert found["tracelake_jobs_due",] == 0

    data = runs_data(query_of(spark))
    assert [(run.command, run.status) for run in data.runs[:2]] == [("report", "succeeded"), ("nightly", "failed")]
    assert (data.runs[2].jobs, data.runs[2].job_count, data.runs[2].failed_delivery_count) == (["a", "b", "c"], 4, 1)
    assert data.days[-1] == DayOfRuns("2026-11-28", "succeeded", 1, MINUTE_NS, 90, 5, 3, 2)
    assert [day.day for day in data.days] == [f"2026-11-{n}" for n in (24, 25, 26, 27, 28, 28)]
    assert data.deliveries == (FailedDeliveries("mlflow", "503", 1, 3, START_NS),)
    assert data.last_success_ns == START_NS + MINUTE_NS
    for name in ("runs", "deliveries", "publications"):
        spark.catalog.dropTempView(name)
