"""Weights & Biases: offline runs as files, and what is said where no server answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracelake.recorder import facts
from tracelake.reports.publish import wandb as wandb_target
from tracelake.reports.publish.model import Delivery, DeliveryFailedError, NoSuchRunError, known_ids, note
from tracelake.reports.publish.settings import WandbOptions
from tracelake.reports.publish.wandb import Wandb, summary

pytest.importorskip("wandb", reason="wandb is absent: pip install 'tracelake[wandb]'")


def test_which_run(delivery: Callable[..., Delivery]) -> None:
    target = Wandb(WandbOptions(mode="offline", entity="team", project="default"))
    assert target.reference(delivery()) == "team/llm/abc123"
    assert target.reference(delivery(ids={"WANDB_RUN_ID": "r"})) == "team/default/r"
    whole = {"WANDB_RUN_ID": "r", "WANDB_ENTITY": "e", "WANDB_PROJECT": "p"}
    assert target.reference(delivery(ids=whole)) == "e/p/r"
    bare = Wandb(WandbOptions(mode="offline"))
    assert bare.reference(delivery(ids={"WANDB_RUN_ID": "r", "WANDB_PROJECT": "p"})) == "p/r"
    for ids in ({}, {"WANDB_RUN_ID": "r"}, {"WANDB_RUN_ID": "a/b", "WANDB_PROJECT": "p"}, {"WANDB_RUN_ID": "***"}):
        assert bare.reference(delivery(ids=ids)) is None


def test_an_offline_run_holds_the_link_and_the_figures(
    delivery: Callable[..., Delivery], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    target = Wandb(WandbOptions(mode="offline", folder=str(tmp_path / "runs")))
    target.send(delivery(), "team/llm/abc123")
    files = list((tmp_path / "runs").rglob("run-abc123.wandb"))
    assert len(files) == 1
    held = files[0].read_bytes()
    for said in (delivery().page_url, "tracelake/gpu_active_ratio", "0.75", "llm", "team"):
        assert said.encode() in held


def test_a_run_online_is_changed_once_and_keeps_what_it_has(
    wandb_online: Any, delivery: Callable[..., Delivery], monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    told = delivery()
    for changes in (3, 3):  # summary, notes, and the summary with these; then nothing
        Wandb(WandbOptions(base_url=wandb_online.url)).send(told, "team/llm/abc123")
        assert wandb_online.changes == changes
    held = json.loads(wandb_online.run["summaryMetrics"])
    assert (held["loss"], held["tracelake/gpu_active_ratio"]) == (1, 0.75)
    assert wandb_online.run["notes"] == f"my own words\n\n{note(told)}"
    with pytest.raises(NoSuchRunError, match="no run team/llm/other there"):
        Wandb(WandbOptions(base_url=wandb_online.url)).send(told, "team/llm/other")
    wandb.teardown()


def test_values_of_the_summary(delivery: Callable[..., Delivery]) -> None:
    assert summary(delivery(status="running")) == {
        "tracelake/report_url": delivery().page_url, "tracelake/fleet_url": None, "tracelake/status": "running",
        "tracelake/attempt": 1, "tracelake/gpu_active_ratio": 0.75, "tracelake/step_count": 400.0,
        "tracelake/tensor_core_ratio": None,
    }  # fmt: skip


def test_a_key_that_is_not_there_is_named_and_a_server_that_is_not_there_is_down(
    delivery: Callable[..., Delivery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(ValueError, match="WANDB_API_KEY is not in the environment; set it to a key"):
        Wandb(WandbOptions())
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setattr(wandb_target, "SECONDS", 1)
    with pytest.raises(DeliveryFailedError) as raised:
        Wandb(WandbOptions(base_url="http://127.0.0.1:9")).send(delivery(), "team/llm/abc123")
    assert raised.value.is_down and "0" * 40 not in str(raised.value)


def test_the_recorder_finds_the_run_that_a_script_opened(
    delivery: Callable[..., Delivery], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    run = wandb.init(
        project="llm", entity="team", mode="offline", dir=tmp_path, settings=wandb.Settings(silent=True, console="off")
    )
    tags = facts.current()["tags"]
    run.finish()
    wandb.teardown()
    assert Wandb(WandbOptions(mode="offline")).reference(delivery(ids=known_ids(tags))) == f"team/llm/{run.id}"
