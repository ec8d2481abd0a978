"""A job to tell of, a real MLflow store, and servers on loopback."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from publish_servers import Server, WandbServer, wandb_server, web_server

from tracelake.reports.publish.model import Delivery, Found


@pytest.fixture
def delivery() -> Callable[..., Delivery]:
    """`delivery(job_id="x", …)`: a job with figures, all else as it likes."""
    usual = Delivery(
        job_id="llm-7b", attempt=1, state="completed", status="complete",
        page_url="https://reports.example.org/job-llm-7b.html", fleet_url=None, project="llm", user="ada",
        family="llm-7b", cloud_job_id="training-job/llm-7b",
        figures={"gpu_active_ratio": 0.75, "step_count": 400.0, "tensor_core_ratio": None},
        findings=(Found("Rank 3 is slow", "warn", 12.34), Found("Kernels are short", "info", None)),
        ids={"MLFLOW_RUN_ID": "0" * 32, "WANDB_RUN_ID": "abc123", "WANDB_PROJECT": "llm", "SLURM_JOB_ID": "7"},
    )  # fmt: skip
    return lambda **given: replace(usual, **given)


@dataclass(frozen=True)
class Tracking:
    """An MLflow tracking store in SQLite."""

    uri: str
    client: Any
    experiment: str
    artifacts: Path

    def run(self, note: str | None = None) -> str:
        """The id of a new run."""
        run_id: str = self.client.create_run(self.experiment).info.run_id
        if note is not None:
            self.client.set_tag(run_id, "mlflow.note.content", note)
        return run_id

    def held(self, run_id: str) -> tuple[Any, ...]:
        """All that the store has of a run: tags, every point of every metric, artifacts."""
        data = self.client.get_run(run_id).data
        points = {
            name: [(m.value, m.timestamp, m.step) for m in self.client.get_metric_history(run_id, name)]
            for name in data.metrics
        }
        files = {
            path.relative_to(self.artifacts).as_posix(): path.read_bytes()
            for path in (self.artifacts / run_id).rglob("*.html")
        }
        return dict(data.tags), points, files


@pytest.fixture(scope="session")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Tracking:
    """Made once: its tables take seconds."""
    pytest.importorskip("mlflow", reason="MLflow's client is absent: pip install 'tracelake[tracking]'")
    from mlflow import MlflowClient

    folder = tmp_path_factory.mktemp("mlflow")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    with warnings.catch_warnings():
        # MLflow 3.17 on SQLAlchemy 2.1.
        warnings.filterwarnings("ignore", "The ``noload`` loader strategy is deprecated")
        client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("train", artifact_location=(folder / "artifacts").as_uri())
    return Tracking(uri, client, experiment, folder / "artifacts")


@pytest.fixture
def server() -> Iterator[Server]:
    with web_server() as told:
        yield told


@pytest.fixture
def wandb_online() -> Iterator[WandbServer]:
    with wandb_server() as told:
        yield told
