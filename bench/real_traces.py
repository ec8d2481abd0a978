"""What the pipeline says of recorded traces: findings with their evidence, numbers withheld with their reason.

docs/real-traces.md reads the result. The traces are those of ../shared, each job one recording or the ranks of one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

TRACES = Path(__file__).parents[2] / "shared/traces/kineto"
JOBS = {
    "dlrm": "param/dlrm_kineto/worker*.json",
    "resnet50-workers-0": "pytorch_kineto/769c__*",
    "resnet50-workers-0-again": "pytorch_kineto/383a__*",
    "resnet50-workers-4": "pytorch_kineto/234c__*",
    "resnet50-workers-4-again": "pytorch_kineto/3e63__*",
    "recsys-control": "hta/trace_diff__control__*",
    "recsys-test": "hta/trace_diff__test__*",
    "ddp-v100-rank-1": "hta/df_index_resolver__*",
    "ddp-a100-rank-0": "hta/nccl_parser_config__*",
    "single-v100": "hta/ns_resolution_trace__*",
    "gloo-rank-34": "hta/cpu_only_v1__*",
    "alexnet": "hta/critical_path__alexnet__*",
    "resnet18-mi300x": "tracelens/mi300__ddp_resnet18*",
    "linear-2080ti": "param/linear_kineto*",
    "transformer": "sidnb13/*851.1752215573993169006*",
}
_SUMMARY = (
    "status", "reasons", "ranks_seen_count", "ranks_expected_count", "device_count", "kernel_count", "gpu_active_ratio",
    "comm_overlap_ratio", "tensor_core_ratio", "step_count", "step_median_ns", "is_step_inferred",
    "step_period_launch_count", "no_steps_reason", "slow_step_count", "outlier_steps_reason", "straggler_count",
    "stragglers_reason", "mfu_ratio", "mfu_reason",
)  # fmt: skip
_FINDING = ("finding_number", "rule", "cause", "title", "lost_ns", "confidence", "evidence", "remedy")
_CLASSES = ("compute_ns", "exposed_comm_ns", "memcpy_ns", "memset_ns", "runtime_ns", "data_loading_ns", "host_work_ns",
            "other_ns")  # fmt: skip
_COLLECTIVE = ("match_number", "operation", "last_rank", "transfer_ns", "wait_max_ns", "is_reliable", "reason")


def measure() -> dict[str, Any]:
    """Per job: its summary, the shares of its steps, its collectives where several ranks have them, its findings."""
    from pyspark.sql import functions as F

    from tracelake.pipelines.lake import Lake
    from tracelake.pipelines.runner import run
    from tracelake.pipelines.session import spark_session
    from tracelake.recorder.importers import ImportOptions, import_one

    spark = spark_session("bench")
    with tempfile.TemporaryDirectory(prefix="tracelake-real-") as folder:
        lake = Lake(Path(folder))
        for job, pattern in JOBS.items():
            paths = sorted(TRACES.glob(pattern))
            if not paths:
                raise FileNotFoundError(f"{TRACES}: no {pattern}; the recorded traces of ../shared are needed")
            for path in paths:
                import_one(path, lake.root, ImportOptions(job))
        run(lake, spark)
        found: dict[str, Any] = {}
        for row in lake.read(spark, "aggregates.job_summary").orderBy("job_id").collect():
            found[row["job_id"]] = {name: row[name] for name in _SUMMARY} | {"findings": []}
        shares = [(F.sum(name) / F.sum("duration_ns")).alias(name) for name in _CLASSES]
        steps = lake.read(spark, "aggregates.step_ledger").filter("status = 'complete'").groupBy("job_id")
        for row in steps.agg(*shares).collect():
            found[row["job_id"]]["step_shares"] = {
                name.removesuffix("_ns"): None if row[name] is None else round(row[name], 4) for name in _CLASSES
            }
        matched = lake.read(spark, "aggregates.collective_matches").filter("ranks_seen_count > 1").orderBy("start_ns")
        for row in matched.collect():
            found[row["job_id"]].setdefault("collectives", []).append({name: row[name] for name in _COLLECTIVE})
        for row in lake.read(spark, "aggregates.findings").orderBy("job_id", "finding_number").collect():
            found[row["job_id"]]["findings"].append({name: row[name] for name in _FINDING})
    spark.stop()
    return {"jobs": found}
