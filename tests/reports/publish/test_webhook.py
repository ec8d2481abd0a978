"""The webhook against a real server: up, refusing, slow, gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tracelake.reports.publish.model import Delivery, DeliveryFailedError
from tracelake.reports.publish.settings import WebhookOptions
from tracelake.reports.publish.webhook import Webhook

HOSTILE = "a/b'\"<script>⟩](x) \u202e${env:HOME}"


def test_it_posts_what_the_documentation_says(
    server: Any, delivery: Callable[..., Delivery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "hunter2")
    target = Webhook(WebhookOptions(url=server.url, token_env="HOOK_TOKEN"))
    for told in (delivery(job_id=HOSTILE), delivery(job_id=HOSTILE), delivery(state="in_progress")):
        target.send(told, "r")
    headers, sent = server.received[0]
    assert (headers["Authorization"], headers["Content-Type"]) == ("Bearer hunter2", "application/json")
    keys = [received["Idempotency-Key"] for received, _ in server.received]
    assert keys[0] == keys[1] != keys[2]
    assert sent == {
        "schema": "tracelake.publication/1",
        "job": {
            "job_id": HOSTILE, "attempt": 1, "state": "completed", "status": "complete", "is_running": False,
            "project": "llm", "user": "ada", "family": "llm-7b", "cloud_job_id": "training-job/llm-7b",
            "ids": {"MLFLOW_RUN_ID": "0" * 32, "WANDB_RUN_ID": "abc123", "WANDB_PROJECT": "llm", "SLURM_JOB_ID": "7"},
        },
        "report_url": "https://reports.example.org/job-llm-7b.html",
        "fleet_url": None,
        "figures": {"gpu_active_ratio": 0.75, "step_count": 400.0, "tensor_core_ratio": None},
        "findings": [
            {"title": "Rank 3 is slow", "severity": "warn", "gpu_hours": 12.34},
            {"title": "Kernels are short", "severity": "info", "gpu_hours": None},
        ],
    }  # fmt: skip
    assert server.received[2][1]["job"]["is_running"]


def test_what_a_server_refuses_is_told_by_its_code(server: Any, delivery: Callable[..., Delivery]) -> None:
    server.answers += [500, 401, 302]
    target = Webhook(WebhookOptions(url=server.url))
    for code in (500, 401, 302):
        with pytest.raises(DeliveryFailedError, match=f"the server answered {code}") as raised:
            target.send(delivery(), "r")
        assert not raised.value.is_down
    assert len(server.received) == 3  # a redirection takes nothing elsewhere
    target.send(delivery(), "r")


def test_a_server_that_does_not_answer_is_down(server: Any, delivery: Callable[..., Delivery]) -> None:
    server.answers.append("slow")
    for options in (WebhookOptions(url=server.url, timeout_s=0.2), WebhookOptions(url="http://127.0.0.1:9/s3cret")):
        with pytest.raises(DeliveryFailedError, match="no answer: ") as raised:
            Webhook(options).send(delivery(), "r")
        assert raised.value.is_down and "s3cret" not in str(raised.value)


def test_variables_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    with pytest.raises(ValueError, match="token_env names HOOK, which is not in the environment"):
        Webhook(WebhookOptions(url="http://127.0.0.1", token_env="HOOK"))
    with pytest.raises(ValueError, match="url_env names HOOK"):
        Webhook(WebhookOptions(url_env="HOOK"))
    monkeypatch.setenv("HOOK", "file:///etc/passwd")
    with pytest.raises(ValueError, match="HOOK holds no http"):
        Webhook(WebhookOptions(url_env="HOOK"))
    monkeypatch.setenv("HOOK", "https://hooks.example.org/T0/s3cret")
    assert Webhook(WebhookOptions(url_env="HOOK")).place.endswith("s3cret")
