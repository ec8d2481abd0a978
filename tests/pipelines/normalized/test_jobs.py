"""Jobs: how they stand, and whose word counts where windows differ."""

from __future__ import annotations

from typing import Any

import pytest
from expect import Row, Rows, Story, Told, story


def window(source_id: str, state: str | None = None, **more: Any) -> Row:
    return {"source_id": source_id, "state": state, "window_start_ns": 10, "window_end_ns": 50, **more}


def state(expected: str, *windows: Row, **more: Any) -> Story:
    return story(source=windows, expect=[{"state": expected, **more}])


STORIES: dict[str, Story] = {
    "a job whose processes all completed is completed": state(
        "completed", window("a", "completed", exit_code=0), window("b", "completed", exit_code=0), exit_code=0,
        ended_ns=50
    ),
    "one failed process makes a failed job": state(
        "failed", window("a", "completed", exit_code=0), window("b", "failed", exit_code=1), exit_code=1, ended_ns=50
    ),
    "one stopped process makes a stopped job": state("stopped", window("a", "completed"), window("b", "stopped")),
    "a job runs while one process does, and has no end": state(
        "in_progress", window("a", "completed"), window("b", "in_progress", window_end_ns=None), ended_ns=None,
        created_ns=10,
    ),
    "the closing row of a window speaks, not its opening row": state(
        "completed", window("a", "in_progress", phase="open", window_end_ns=None), window("a", "completed"), ended_ns=50
    ),
    "a process that went on after its first window is judged by its last": state(
        "completed", window("a", "in_progress", process_id=7, node_id="n"),
        window("b", "completed", process_id=7, node_id="n", window_start_ns=60, window_end_ns=90,
               previous_source_id="a"),
        ended_ns=90,
    ),
    "only the latest attempt tells the state": state(
        "completed", window("a", "failed", exit_code=1, attempt=0), window("b", "completed", exit_code=0, attempt=1),
        exit_code=0, attempt_count=2,
    ),
    "an import does not know its state": state(
        "unknown", {"source_id": "a", "host_start_ns": 5, "host_end_ns": 70, "format": "kineto"},
        created_ns=5, ended_ns=70, exit_code=None, format="kineto",
    ),
    "a state that no one defined is unknown": state("unknown", window("a", "exploded")),
    "the latest attempt's lowest rank speaks, and gaps are filled from the others": story(
        source=[window("a", attempt=0, rank=0, project="old", user="ann"),
                window("c", attempt=1, rank=1, project="one", framework="torch 2.9", hyperparameters={"lr": "2"}),
                window("b", attempt=1, rank=0, project="zero", hyperparameters={"lr": "1"}, tags={"run": "r"})],
        expect=[{"project": "zero", "user": "ann", "framework": "torch 2.9", "hyperparameters": {"lr": "1"},
                 "tags": {"run": "r"}, "attempt_count": 2}],
    ),
    "machines are collected over all windows, each once": story(
        source=[window("a", node_id="n2", instance_type="p5", instance_id="i-2"),
                window("b", node_id="n1", instance_type="p4", instance_id="i-1"),
                window("c", node_id="n1", instance_type="p4", instance_id="i-1")],
        expect=[{"nodes": ["n1", "n2"], "instance_type": "p4, p5", "instance_ids": ["i-1", "i-2"]}],
    ),
    "nothing known of machines and ranks stays unknown": story(
        source=[window("a")],
        expect=[{"nodes": [], "instance_type": None, "instance_ids": [], "world_size": None, "cloud_region": None}],
    ),
    "the world size is that of the latest attempt": story(
        source=[window("a", attempt=0, world_size=16), window("b", attempt=1, world_size=8)], expect=[{"world_size": 8}]
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "normalized.jobs", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_jobs(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)
