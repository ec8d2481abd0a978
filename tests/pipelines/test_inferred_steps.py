"""Inferred steps against the truth: of the simulator, which knows the steps, and of a trace that names them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from expect import Rows
from pyspark.sql import DataFrame, SparkSession
from quick import CAUSES, run_without
from simulated import small_job

from tracelake.pipelines.lake import Lake
from tracelake.pipelines.normalized.ranges import ranges
from tracelake.pipelines.normalized.step_periods import step_periods
from tracelake.pipelines.parameters import Parameters
from tracelake.recorder.importers import Imported, ImportOptions, import_one
from tracelake.recorder.simulate import Fault, JobTruth, simulate_jobs
from tracelake.recorder.simulate.light import GPU_BOUND
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import manifests, raw_root
from tracelake.schemas.steps import INFERRED_STEP

STEPS, RANKS = 24, 4
SLOW = 2
UNREAD = ("aggregates.annotation_histogram", "aggregates.annotation_stats", "aggregates.utilization")
RUN = run_without(*UNREAD, *(name for name in CAUSES if name != "aggregates.stragglers"))
TRACE = "kineto/hta/ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"


class Simulated:
    """A lake with a marked job, the same one unmarked, and one more that is unmarked and has a slow rank."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        slow = small_job(GPU_BOUND[0], Fault("slow_rank", 0.5, rank=SLOW), steps=STEPS, has_markers=False)
        unmarked = small_job(GPU_BOUND[0], steps=STEPS, has_markers=False)
        marked = replace(unmarked, has_markers=True)
        jobs = [replace(job, job_id=name) for job, name in ((marked, "marked"), (unmarked, "unmarked"), (slow, "slow"))]
        truth = simulate_jobs(root, jobs)
        self.truths = {job.job_id: job for job in truth.jobs}
        self.lake, self.spark = Lake(root), spark
        RUN(self.lake, spark)

    def rows(self, name: str, job_id: str) -> list[Any]:
        return self.lake.read(self.spark, name).filter(f"job_id = '{job_id}'").collect()

    def truth(self, job_id: str) -> JobTruth:
        return self.truths[job_id]


@pytest.fixture(scope="module")
def simulated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return Simulated(spark, tmp_path_factory.mktemp("inferred"))


@pytest.mark.parametrize("job_id", ["unmarked", "slow"])
def test_each_rank_has_its_steps_without_markers(simulated: Simulated, job_id: str) -> None:
    steps = simulated.rows("aggregates.step_ledger", job_id)
    assert {(row.step_name, row.is_inferred, row.status) for row in steps} == {(INFERRED_STEP, True, "complete")}
    for device in simulated.truth(job_id).devices:
        mine = sorted((row for row in steps if row.rank == device.rank), key=lambda row: row.start_ns)
        assert [row.step_occurrence for row in mine] == list(range(len(mine)))
        assert STEPS - 1 <= len(mine) <= STEPS
        assert all(a.start_ns + a.duration_ns == b.start_ns for a, b in pairwise(mine))
        assert median(row.duration_ns for row in mine) == pytest.approx(median(device.step_durations_ns), rel=0.02)


def test_the_ranks_steps_are_the_same_ones(simulated: Simulated) -> None:
    by_number: dict[int, list[Any]] = {}
    for row in simulated.rows("aggregates.step_ledger", "slow"):
        by_number.setdefault(row.step_occurrence, []).append(row)
    for rows in by_number.values():
        starts = [row.start_ns for row in rows]
        assert len(rows) == RANKS and max(starts) - min(starts) < min(row.duration_ns for row in rows) / 2


def test_a_job_is_told_how_its_steps_are_known(simulated: Simulated) -> None:
    (marked,), (unmarked,) = (simulated.rows("aggregates.job_summary", name) for name in ("marked", "unmarked"))
    told = ("is_step_inferred", "step_period_launch_count", "step_agreement_ratio", "no_steps_reason")
    assert [marked[name] for name in told] == [False, None, None, None]
    assert [unmarked[name] for name in told] == [True, GPU_BOUND[0].workload.kernel_count, 1.0, None]
    assert unmarked.step_median_ns == pytest.approx(marked.step_median_ns, rel=0.02)
    assert {row.job_id for row in simulated.lake.read(simulated.spark, "normalized.step_periods").collect()} == {
        "unmarked",
        "slow",
    }


def test_the_slow_rank_of_an_unmarked_job_is_found(simulated: Simulated) -> None:
    assert [row.rank for row in simulated.rows("aggregates.stragglers", "slow")] == [SLOW]
    assert not simulated.rows("aggregates.stragglers", "unmarked")


def test_the_steps_that_a_trace_names_are_found_without_the_names(
    spark: SparkSession, rows: Rows, traces: Path, tmp_path: Path
) -> None:
    if not (traces / TRACE).is_file():
        pytest.skip("the trace is absent")
    assert isinstance(import_one(traces / TRACE, tmp_path, ImportOptions("job")), Imported)
    raw = _raw(spark, tmp_path)
    known = ranges(raw["source"], raw["annotation"], rows(table("normalized.step_periods"))).filter("is_step")
    marked = sorted((row["index"], row["duration_ns"]) for row in known.collect())
    assert [index for index, _ in marked] == [101, 102, 103, 104, 105]
    # It names five steps, fewer than are asked for.
    nameless = Parameters(step_patterns=("nothing",), inferred_step_min_count=4)
    (found,) = step_periods(**raw, parameters=nameless).collect()
    assert (found.period_launch_count, found.reason) == (870, None)
    assert found.agreement_ratio > 0.99 and abs(found.step_count - len(marked)) <= 1
    lengths = [b - a for a, b in pairwise([*found.starts_ns, found.end_ns])]
    assert median(lengths) == pytest.approx(median(duration for _, duration in marked), rel=0.02)


def _raw(spark: SparkSession, root: Path) -> dict[str, DataFrame]:
    """Raw tables of a lake, as runs read them."""
    paths: dict[str, list[str]] = {}
    for _, manifest in manifests(raw_root(root)):
        for segment in manifest.segments:
            paths.setdefault(segment.kind, []).append(str(raw_root(root) / segment.path))
    kinds = ("source", "annotation", "launch", "kernel")
    return {kind: Lake(root).read_raw(spark, kind, paths.get(kind, [])) for kind in kinds}
