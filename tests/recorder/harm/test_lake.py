"""What the recorder left, through the pipeline: a whole job, one whose GPU trace was refused, one that still runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from quick import run as run_pipeline
from recorded import GPU_PREAMBLE as PREAMBLE
from recorded import Lake as Raw
from recorded import environment, run, start, wait_for, wait_until_delivered

from tracelake.pipelines.lake import Lake

STEPS = """
for step in range(10):
    with tracelake.annotate(f"step_{step}"):
        with tracelake.annotate("forward"):
            cupti.fake_launch_many(100)
        time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def lake(spark: SparkSession, gpu: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("recorded")
    whole = PREAMBLE + "with tracelake.record():" + STEPS.replace("\n", "\n    ")
    refused = whole.replace("cupti.fake_launch_many(100)", "pass").replace(
        "with", "cupti.fake_subscribe_code(39)\nwith", 1
    )
    for job, text in (("whole", whole), ("refused", refused)):
        done = run(folder, text, {**environment(folder, job_id=job, rank=0, world_size=1), **gpu})
        assert done.returncode == 0, done.stderr
    live = whole + '\n    print("recorded", flush=True)\n    time.sleep(600)\n'
    env = environment(folder, job_id="live", rank=0, world_size=1, segment_seconds=0.3)
    process = start(folder, live, {**env, **gpu})
    try:
        raw = Raw(folder / "lake")
        wait_for(lambda: [m for m in raw.manifests("live") if m.rows["stored"] >= 2_000], "segments of the live job")
        lake = Lake(folder / "lake")
        run_pipeline(lake, spark)
        yield lake
    finally:
        process.kill()
        process.communicate()
        wait_until_delivered(folder)


def one(lake: Lake, spark: SparkSession, table: str, job: str, columns: str) -> dict[str, Any]:
    (row,) = lake.read(spark, table).filter(f"job_id = '{job}'").selectExpr(*columns.split(", ")).collect()
    return row.asDict()  # type: ignore[no-any-return]


def test_a_whole_job_has_every_number(lake: Lake, spark: SparkSession) -> None:
    source = one(lake, spark, "normalized.sources", "whole", "status, gpu_reason, capture, launch_coverage_ratio, "
                 "kernel_count, rows_read = rows_stored + rows_skipped AS adds_up")  # fmt: skip
    assert source == {"status": "complete", "gpu_reason": None, "capture": "cupti", "launch_coverage_ratio": 1.0,
                      "kernel_count": 1_000, "adds_up": True}  # fmt: skip
    kernels = lake.read(spark, "normalized.kernels").filter("job_id = 'whole'")
    per_step = kernels.groupBy("step_name", "step_occurrence").count().collect()
    assert {(row[0], row[1]): row["count"] for row in per_step} == {("step", i): 100 for i in range(10)}
    assert kernels.filter("launch_id IS NULL").count() == 0
    ledger = one(lake, spark, "aggregates.device_ledger", "whole' AND scope = 'job", "window_ns, device_id, "
                 "compute_ns + exposed_comm_ns + exposed_mem_ns + idle_ns AS parts")  # fmt: skip
    assert ledger["window_ns"] == ledger["parts"]
    assert ledger["device_id"].startswith("GPU-")
    assert one(lake, spark, "normalized.jobs", "whole", "state") == {"state": "completed"}


def test_a_refused_trace_gives_no_number_and_says_why(lake: Lake, spark: SparkSession) -> None:
    """Case 25: neither 0 % nor 100 % idle."""
    source = one(lake, spark, "normalized.sources", "refused", "status, status_reason, gpu_reason, capture_reason")
    assert source["status"] == "degraded"
    assert source["status_reason"] == "gpu_capture_failed"
    assert source["gpu_reason"] == "no_gpu_activity_captured"
    assert source["capture_reason"].startswith("cupti_busy: ")
    summary = one(lake, spark, "aggregates.job_summary", "refused", "gpu_active_ratio, step_count, status")
    assert summary == {"gpu_active_ratio": None, "step_count": 10, "status": "degraded"}
    assert (
        lake.read(spark, "aggregates.device_ledger").filter("job_id = 'refused' AND idle_ns IS NOT NULL").count() == 0
    )


def test_a_job_that_runs_shows_what_it_has(lake: Lake, spark: SparkSession) -> None:
    source = one(lake, spark, "normalized.sources", "live", "status, kernel_count, rows_read = rows_stored AS adds_up")
    assert source == {"status": "running", "kernel_count": 1_000, "adds_up": True}
    assert one(lake, spark, "normalized.jobs", "live", "state, ended_ns") == {"state": "in_progress", "ended_ns": None}
    assert one(lake, spark, "aggregates.job_summary", "live", "step_count")["step_count"] == 10
