"""Temporal breakdown beside Holistic Trace Analysis on the same files.

HTA's window is the first device start to the last device end, so its idle leaves out the edges of ours; what must agree
to its rounding is compute, and compute + everything else that is busy. HTA calls communication whatever matches its
name patterns. HTA leaves out the last profiler step unless told otherwise, and it is told.

Its share of communication under compute is held against `comm_overlap_ratio`. Its causes of idle time are those of one
stream, where another stream of the device may be busy: both are shown, and the share that waits for the host compared.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.child import measured
from bench.import_speed import ROOT, hta_python

TRACES = ROOT.parent / "shared/traces/kineto"
FILES = (
    "hta/df_index_resolver__df_index_resolver.json.gz",
    "hta/nccl_parser_config__nccl_data.json.gz",
    "hta/ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "hta/trace_diff__control__control.json.gz",
    "hta/trace_diff__test__test.json.gz",
    "param/dlrm_kineto/worker0_step_12.1694128201545.pt.trace.json",
    "param/dlrm_kineto/worker1_step_12.1694128201556.pt.trace.json",
)
EXPLAINED = {
    FILES[1]: "HTA rounds starts up and ends down to whole microseconds, so each event loses up to 2 us",
    FILES[2]: "the same rounding",
    FILES[4]: "HTA drops the 614 device events that have no launch; without them both parts are equal",
    "host_wait": "HTA's is of one stream: time in which other streams are busy counts as waiting, and gaps of up to"
    " 30 ns are kernel_wait",
}
"""Where the two differ, and why: recomputed from the files with the peer's reduction."""
_PEER = """
import json, sys
from hta.trace_analysis import TraceAnalysis
rows = {}
for name in sys.argv[2:]:
    analysis = TraceAnalysis(
        trace_files={0: f"{sys.argv[1]}/{name}"}, trace_dir="/", include_last_profiler_step=True
    )
    row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    parts = ("idle_time(us)", "compute_time(us)", "non_compute_time(us)", "kernel_time(us)")
    rows[name] = {k: float(row[k]) for k in parts}
    overlap = analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"]
    rows[name]["overlap_percent"] = float(overlap.iloc[0]) if len(overlap.dropna()) else None
    idle = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
    main = idle.groupby("stream")["idle_time"].sum().idxmin()
    waits = idle[idle["stream"] == main].set_index("idle_category")["idle_time"]
    rows[name]["host_wait_percent_of_busiest_stream"] = round(100 * float(waits["host_wait"] / waits.sum()), 1)
print(json.dumps(rows))
"""
_OURS = """
import json, sys
from pathlib import Path
from tracelake.pipelines.lake import Lake
from tracelake.pipelines.runner import run
from tracelake.pipelines.session import spark_session
from tracelake.recorder.importers import ImportOptions, import_one
lake, rows = Lake(Path(sys.argv[1])), {}
for name in sys.argv[3:]:
    import_one(Path(sys.argv[2]) / name, lake.root, ImportOptions(name))
session = spark_session("bench")
run(lake, session)
ledger = lake.read(session, "aggregates.device_ledger").filter("scope = 'window'")
kernels = lake.read(session, "normalized.kernels")
span = kernels.selectExpr("job_id", "start_ns", "effective_end_ns AS end_ns").unionByName(
    lake.read(session, "normalized.memops").select("job_id", "start_ns", "end_ns"))
for row in span.groupBy("job_id").agg({"start_ns": "min", "end_ns": "max"}).join(ledger, "job_id").collect():
    rows[row["job_id"]] = {"span_ns": row["max(end_ns)"] - row["min(start_ns)"], "compute_ns": row["compute_ns"],
        "other_busy_ns": row["exposed_comm_ns"] + row["exposed_mem_ns"],
        "overlap": row["comm_overlap_ratio"], "idle_ns": row["idle_ns"]}
idle = lake.read(session, "aggregates.idle_causes").filter("scope = 'window'")
on_device = ("queued", "dependency", "unknown")
for row in idle.filter(~idle.cause.isin(*on_device)).groupBy("job_id").agg({"idle_ns": "sum"}).collect():
    rows[row["job_id"]]["host_idle_ns"] = row["sum(idle_ns)"]
session.stop()
print(json.dumps(rows))
"""


def measure() -> dict[str, Any]:
    """Per file: both breakdowns in microseconds, and the largest difference of any part."""
    with tempfile.TemporaryDirectory() as folder:
        peer = measured(_PEER, str(TRACES), *FILES, python=hta_python())
        ours = measured(_OURS, str(Path(folder) / "lake"), str(TRACES), *FILES)
    files: dict[str, Any] = {}
    for name in FILES:
        hta, own = peer[name], ours[name]
        busy = own["compute_ns"] + own["other_busy_ns"]
        mine = {
            "compute_time(us)": own["compute_ns"] / 1000,
            "non_compute_time(us)": own["other_busy_ns"] / 1000,
            "idle_time(us)": (own["span_ns"] - busy) / 1000,
        }
        apart = max(abs(mine[k] - hta[k]) for k in mine)
        overlap = None if own["overlap"] is None else round(100 * own["overlap"], 2)
        host = round(100 * own.get("host_idle_ns", 0) / own["idle_ns"], 1)
        shares = {"overlap_percent": overlap, "host_wait_percent_of_device": host}
        files[name] = {"hta": hta, "tracelake": {**mine, **shares}, "largest_difference_us": apart}
    return {"files": files, "explained": EXPLAINED}
