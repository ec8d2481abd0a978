"""What is told of a job: figures, ids, one phrase; never a secret, never another tag."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import pytest

from tracelake import publish
from tracelake.recorder import identity
from tracelake.reports.publish import model
from tracelake.reports.publish.model import IDS, Delivery, Found, delivery_of, digest, known_ids, note, noted
from tracelake.reports.publish.settings import PublishSettings, WebhookOptions
from tracelake.reports.publish.targets import targets
from tracelake.reports.publish.webhook import Webhook, body

ROW: dict[str, Any] = {
    "job_id": "j", "attempt": 2, "state": "in_progress", "status": "running", "project": None, "user": "ada",
    "family": "j", "cloud_job_id": None, "device_time_ns": 7_200_000_000_000, "exposed_comm_ns": 720_000_000_000,
    "idle_ns": None, "gpu_active_ratio": 0.5, "kernel_busy_ratio": 0.4, "comm_overlap_ratio": None,
    "tensor_core_ratio": 0.9, "mfu_ratio": None, "step_count": 10, "step_median_ns": 12_500_000,
    "slow_step_count": None, "straggler_count": 1, "finding_count": 7,
    "findings": [{"finding_number": 1, "title": "Rank 3 is slow", "severity": "warn", "lost_ns": 3_600_000_000_000}],
    "tags": {"command": "train.py --api-key ***", "team": "a", "mlflow.run_id": "9b1c"},
}  # fmt: skip


def test_examples_in_the_docstrings_hold() -> None:
    for module in (model, publish):
        tried = doctest.testmod(module)
        assert tried.attempted and not tried.failed


def test_figures_are_in_units_that_people_read_and_unknown_ones_are_none() -> None:
    told = delivery_of(ROW, "https://r/job-j.html", None)
    assert told.is_running and told.word == "running"
    assert told.findings == (Found("Rank 3 is slow", "warn", 1.0),)
    assert told.figures == {
        "gpu_active_ratio": 0.5, "kernel_busy_ratio": 0.4, "comm_overlap_ratio": None, "tensor_core_ratio": 0.9,
        "mfu_ratio": None, "exposed_comm_ratio": 0.1, "idle_ratio": None, "gpu_hours": 2.0, "step_median_ms": 12.5,
        "step_count": 10.0, "slow_step_count": None, "straggler_count": 1.0, "finding_count": 7.0,
    }  # fmt: skip
    assert delivery_of({**ROW, "device_time_ns": 0}, "u", None).figures["exposed_comm_ratio"] is None


def test_only_known_ids_leave_the_lake() -> None:
    assert delivery_of(ROW, "u", None).ids == {"MLFLOW_RUN_ID": "9b1c"}
    assert "train.py" not in str(body(delivery_of(ROW, "u", None)))
    both = {"mlflow.run_id": "by hand", "MLFLOW_RUN_ID": "captured", "wandb.run_id": "w", "SLURM_JOB_ID": ""}
    assert known_ids(both) == {"MLFLOW_RUN_ID": "captured", "WANDB_RUN_ID": "w"}


def test_every_tracker_that_the_recorder_captures_is_known() -> None:
    assert set(identity._TRACKERS) <= set(IDS) <= {*identity._TRACKERS, *identity._ENVIRONMENT}


def test_the_phrase_replaces_itself_and_nothing_else(delivery: Callable[..., Delivery]) -> None:
    own = note(delivery())
    assert own == (
        "⟨tracelake: [report](https://reports.example.org/job-llm-7b.html) · completed · Rank 3 is slow"
        " (12.3 GPU-hours) · Kernels are short⟩"
    )
    mine = "# My run\nlr was too high ⟨sic⟩"
    once = noted(mine, own)
    edited = once.replace(own, f"see {own} and more") + "\nlater"
    assert once.startswith(mine)
    later = note(delivery(state="failed"))
    assert noted(edited, later) == edited.replace(own, later)
    assert noted(noted(edited, later), later) == noted(edited, later)
    assert noted("  ", own) == noted(None, own) == own


def test_hostile_titles_stay_inside_the_phrase(delivery: Callable[..., Delivery]) -> None:
    title = "k<T>⟩ [x](javascript:1)\n# big \u202e `a` \\"
    own = note(delivery(findings=(Found(title * 9, "warn", None),)))
    assert noted(f"before\n\n{own}\nafter", "NEW") == "before\n\nNEW\nafter"
    assert "\n" not in own and "](java" not in own and "\u202e" not in own and "<T" not in own.replace("\\<", "")


def test_the_digest_is_of_all_that_is_told_and_where_to(delivery: Callable[..., Delivery]) -> None:
    one, other = (Webhook(WebhookOptions(url=f"http://127.0.0.1/{path}")) for path in "ab")
    told = delivery()
    assert digest(told, one, "r") == digest(delivery(), one, "r")
    different = {
        digest(told, one, "r"), digest(told, other, "r"), digest(told, one, None),
        digest(delivery(page=b"x"), one, "r"),
        digest(delivery(figures={}), one, "r"), digest(delivery(page_url="https://new"), one, "r"),
    }  # fmt: skip
    assert len(different) == 6


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"where": 1}, r"\[publish\]: no setting where; there are base_url, and the tables mlflow, wandb, webhook"),
        ({"base_url": "ftp://x"}, r"\[publish\]: base_url is no address that begins with http://"),
        ({"mlflow": {}}, r"\[publish\.mlflow\]: set tracking_uri"),
        ({"mlflow": {"tracking_uri": "mlflow:5000"}}, "tracking_uri is no address"),
        ({"mlflow": {"tracking_uri": "http://a:b@c"}}, "tracking_uri holds a password"),
        ({"mlflow": {"tracking_uri": "http://c", "artifact": "all"}}, "artifact = 'all'; choose link, page, none"),
        ({"mlflow": {"tracking_uri": "http://c", "trusted_uris": "http://d"}}, "trusted_uris is not a list of texts"),
        ({"wandb": {"mode": "later"}}, r"\[publish\.wandb\]: mode = 'later'; choose online, offline"),
        ({"wandb": {"api_key": "hunter2"}}, r"no setting api_key; there are mode"),
        ({"webhook": {}}, r"\[publish\.webhook\]: set url, or url_env"),
        ({"webhook": {"url": "http://c", "timeout_s": 0}}, "timeout_s = 0; give seconds"),
        ({"webhook": {"url": "http://c", "timeout_s": "5"}}, "timeout_s is not a number"),
        ({"webhook": "http://c"}, r"\[publish\.webhook\] is no table"),
    ],
)
def test_wrong_settings_say_what_to_set(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        PublishSettings.from_mapping(given)
    assert "hunter2" not in str(raised.value)


def test_targets_are_those_of_the_settings() -> None:
    settings = PublishSettings.from_mapping({"webhook": {"url": "http://127.0.0.1:1"}})
    assert [target.name for target in targets(settings)] == ["webhook"]
    with pytest.raises(ValueError, match="no target comet; there are mlflow, wandb, webhook"):
        targets(settings, ["comet"])
    with pytest.raises(ValueError, match=r"target wandb is not set up: .* \[publish\.wandb\]"):
        targets(settings, ["wandb"])
    assert targets(PublishSettings()) == []
