"""Pipeline bubbles: a simulated pipeline whose bubble is known, and real all-to-alls in kernels of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pyspark.sql import SparkSession
from quick import only_for

from tracelake.pipelines.lake import Lake
from tracelake.recorder.importers import import_one
from tracelake.recorder.importers.trace_file import Imported, ImportOptions
from tracelake.recorder.simulate import DAY, JobTruth, simulate_job
from tracelake.recorder.simulate.events import RankEvents
from tracelake.recorder.simulate.fleet import H100, Job, day_start_ns
from tracelake.recorder.simulate.intervals import length
from tracelake.recorder.simulate.noise import LEVELS
from tracelake.recorder.simulate.play import record
from tracelake.recorder.simulate.workloads import PIPELINE_STAGE

SEED = 7
STAGES, MICRO_BATCHES = 4, 8
PIPELINE = Job(
    "pipeline", PIPELINE_STAGE, H100, nodes=1, devices_per_node=STAGES, steps=24, start_second=60, noise=LEVELS[0],
    micro_batches=MICRO_BATCHES,
)  # fmt: skip
DLRM = "kineto/param/dlrm_kineto/worker0_step_12.1694128201545.pt.trace.json"


@dataclass(frozen=True)
class Made:
    lake: Lake
    spark: SparkSession
    truth: JobTruth
    has_trace: bool

    def rows(self, table: str, where: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in self.lake.read(self.spark, f"aggregates.{table}").filter(where).collect()]


def exposed(events: RankEvents) -> list[int]:
    """By step, from the simulator's events: time in sends and receives with no compute kernel beside them."""
    found = []
    for start, end in events.steps:
        both = [
            (max(k.start_ns, start), min(k.start_ns + k.duration_ns, end), k.collective_name) for k in events.kernels
        ]
        inside = [(a, b, name) for a, b, name in both if b > a]
        compute = [(a, b) for a, b, name in inside if name is None]
        found.append(length([(a, b) for a, b, _ in inside]) - length(compute))
    return found


@pytest.fixture(scope="module")
def recorded() -> list[RankEvents]:
    return [window.events for window in record(PIPELINE, SEED, day_start_ns(DAY))]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    lake = Lake(tmp_path_factory.mktemp("pipeline"))
    truth = simulate_job(lake.root, PIPELINE, seed=SEED)
    trace = Path(__file__).resolve().parents[3] / "shared/traces" / DLRM
    if trace.is_file():
        assert isinstance(import_one(trace, lake.root, ImportOptions("dlrm")), Imported)
    only_for("findings", "job_summary")(lake, spark)
    return Made(lake, spark, truth, trace.is_file())


def test_equal_stages_idle_as_the_schedule_says(recorded: list[RankEvents]) -> None:
    """The simulator against the formula: (p - 1) of m + p - 1 turns, and transfers of a hundredth."""
    for events in recorded:
        for (start, end), ns in list(zip(events.steps, exposed(events), strict=True))[1:]:
            assert ns / (end - start) == pytest.approx((STAGES - 1) / (MICRO_BATCHES + STAGES - 1), abs=0.015)


def test_exposed_sends_are_those_of_the_events_to_the_nanosecond(made: Made, recorded: list[RankEvents]) -> None:
    steps = sorted(made.rows("step_ledger", "job_id = 'pipeline'"), key=lambda row: (row["rank"], row["start_ns"]))
    assert [row["exposed_p2p_ns"] for row in steps] == [ns for events in recorded for ns in exposed(events)]
    assert all(0 < row["exposed_p2p_ns"] <= row["exposed_comm_ns"] for row in steps)


def test_the_bubble_is_that_of_the_truth(made: Made) -> None:
    assert made.truth.bubble_ratio == 3 / 11
    ranks = made.rows("rank_stats", "job_id = 'pipeline'")
    assert [row["bubble_ratio"] for row in ranks] == pytest.approx([made.truth.bubble_ratio] * STAGES, abs=0.015)
    (summary,) = made.rows("job_summary", "job_id = 'pipeline'")
    assert summary["bubble_ratio"] == pytest.approx(made.truth.bubble_ratio, abs=0.015)
    assert summary["bubble_reason"] is None


def test_bubbles_are_found_once(made: Made) -> None:
    found = made.rows("findings", "job_id = 'pipeline'")
    (bubbles,) = [row for row in found if row["rule"] == "pipeline_bubbles"]
    steps = made.rows("step_ledger", "job_id = 'pipeline'")
    assert bubbles["lost_ns"] <= sum(row["exposed_p2p_ns"] for row in steps)
    whole = bubbles["step_count"] * STAGES * median(row["duration_ns"] for row in steps)
    assert bubbles["lost_ns"] / whole == pytest.approx(3 / 11, abs=0.02)
    assert "exposed_comm" not in {row["cause"] for row in found}, "no other communication is exposed"


def test_an_all_to_all_is_no_bubble(made: Made) -> None:
    """Recommender models exchange embeddings in send and receive kernels, and old profilers do not say so."""
    if not made.has_trace:
        pytest.skip("../shared/traces is absent: the recorded traces are not part of the repository")
    kernels = made.lake.read(made.spark, "normalized.kernels").filter("job_id = 'dlrm' AND name LIKE '%SendRecv%'")
    assert kernels.count() == 5
    (step,) = made.rows("step_ledger", "job_id = 'dlrm'")
    assert step["exposed_comm_ns"] > 0
    assert step["exposed_p2p_ns"] is None
    (summary,) = made.rows("job_summary", "job_id = 'dlrm'")
    assert (summary["bubble_ratio"], summary["bubble_reason"]) == (None, "no_send_recv")
    assert not made.rows("findings", "job_id = 'dlrm' AND rule = 'pipeline_bubbles'")
