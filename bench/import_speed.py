"""Import of a 54 MB trace beside Holistic Trace Analysis's parse of the same file, both on all cores, in one run.

HTA and its plotting stack live in a virtual environment of their own under build/.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.child import PEAK, measured

ROOT = Path(__file__).parents[1]
TRACE = ROOT.parent / "shared/traces/kineto/hta/df_index_resolver__df_index_resolver.json.gz"
HTA = "HolisticTraceAnalysis==0.5.0"
_OURS = (
    """
import json, sys, time
started = time.monotonic()
from pathlib import Path
from tracelake.recorder.importers import ImportOptions, import_one
done = import_one(Path(sys.argv[1]), Path(sys.argv[2]), ImportOptions("bench"))
seconds = time.monotonic() - started
"""
    + PEAK
    + 'print(json.dumps({"inner_s": seconds, "peak_bytes": peak, "rows": done.rows_read}))'
)
_PEER = (
    """
import json, sys, time
started = time.monotonic()
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
seconds = time.monotonic() - started
rows = len(analysis.t.get_trace(0))
"""
    + PEAK
    + 'print(json.dumps({"inner_s": seconds, "peak_bytes": peak, "rows": rows}))'
)


def hta_python() -> str:
    """A Python that has HTA, made once. Raises CalledProcessError where it cannot be installed."""
    folder = ROOT / "build/hta"
    python = folder / "bin/python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "setuptools<80", HTA], check=True)
        (folder / "ready").touch()
    return str(python)


def measure() -> dict[str, Any]:
    """Best of three of each, taken in turns; the limits are a tenth of the time and half the memory."""
    peer = hta_python()
    ours_runs, peer_runs = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as lake:
            ours_runs.append(measured(_OURS, str(TRACE), lake))
        peer_runs.append(measured(_PEER, str(TRACE), python=peer))
    ours, theirs = (min(runs, key=lambda run: run["seconds"]) for runs in (ours_runs, peer_runs))
    return {
        "tracelake": ours,
        "hta": theirs,
        "time_ratio": round(ours["seconds"] / theirs["seconds"], 4),
        "memory_ratio": round(ours["peak_bytes"] / theirs["peak_bytes"], 4),
        "limits": {"time_ratio": 0.1, "memory_ratio": 0.5},
    }
