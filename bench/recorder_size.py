"""Bytes on disk: a million kernels and their launches through the sidecar, and Kineto's own traces imported again.

The synthetic kernels have 60 names of 119 characters on average, durations that vary by 3 % and exponential gaps, which
no encoding can make smaller; they reach the lake as a recording does, through a spool.
"""

from __future__ import annotations

import gzip
import json
import random
import tempfile
import time
from pathlib import Path
from struct import Struct
from typing import Any

import pyarrow.parquet as pq

from bench.recorder_figures import ROOT
from tracelake.recorder.identity import find
from tracelake.recorder.importers import Imported, ImportOptions, import_one
from tracelake.recorder.settings import load
from tracelake.recorder.sidecar.run import run
from tracelake.recorder.spool import NAMES, PROCESS, RECORD_BYTES, Journal, events_path
from tracelake.schemas.manifest import manifests, raw_root

PAIRS = 1_000_000
LEAST_GPU_EVENTS = 3_000
TRACES = ROOT.parent / "shared/traces/kineto"
LIMITS = {"bytes_per_pair": 9.0, "of_json": 100.0, "of_json_gz": 10.0}
# Native records, see recorder/native/records.h.
_RECORD = Struct("<BBHIqqIIII")
_KERNEL, _RUNTIME, _LAUNCH = 10, 5, 211
_GAP_NS, _LAUNCH_NS = 9_000, 4_000
_DEVICE_CATEGORIES = (b'"kernel"', b'"Kernel"', b'"gpu_mem', b'"Mem', b'"mtia_ccp')


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        synthetic = _synthetic(Path(folder))
    traces = {str(path.relative_to(TRACES)): found for path in _files() if (found := _trace(path)) is not None}
    least = {name: min(trace["operators_off"][name] for trace in traces.values()) for name in ("of_json", "of_json_gz")}
    return {
        "synthetic": synthetic,
        "traces": traces,
        "least_ratio_operators_off": least,
        "limits": LIMITS,
        "holds": {
            "bytes_per_pair": synthetic["bytes_per_pair"] <= LIMITS["bytes_per_pair"],
            **{name: least[name] >= LIMITS[name] for name in least},
        },
    }


# A million kernels and launches ---------------------------------------------------------------------------------------


def _synthetic(folder: Path) -> dict[str, Any]:
    spool = folder / "spool"
    _write_spool(spool, folder / "lake")
    began = time.process_time()
    assert run(spool, sample=False)
    seconds = time.process_time() - began
    columns = {kind: _columns(folder / "lake", kind) for kind in ("kernel", "launch")}
    sizes = {
        kind: sum(path.stat().st_size for path in raw_root(folder / "lake").glob(f"{kind}/**/*.parquet"))
        for kind in columns
    }
    return {
        "pairs": PAIRS,
        "bytes_per_pair": round(sum(sizes.values()) / PAIRS, 3),
        "bytes_per_kernel": round(sizes["kernel"] / PAIRS, 3),
        "bytes_per_launch": round(sizes["launch"] / PAIRS, 3),
        "bytes_per_row_by_column": columns,
        "sidecar_cpu_ns_per_record": round(seconds * 1e9 / (2 * PAIRS), 1),
    }


def _write_spool(spool: Path, lake: Path) -> None:
    """A spool as a training process leaves it. Raises OSError."""
    spool.mkdir()
    settings, _ = load({"output": str(lake), "job_id": "bench", "rank": 0}, environ={})
    process = {
        "recorder_version": "bench", "settings": settings.as_dict(), "identity": vars(find(settings, {})),
        "first_source_id": "w0", "loaded_ns": 0, "clock_offset_ns": time.time_ns(), "launch_folder": None,
        "start_ticks": None, "visible_devices": None, "work_folder": str(spool),
    }  # fmt: skip
    (spool / PROCESS).write_text(json.dumps(process, default=str))
    (spool / NAMES).write_text("".join(f"{number}\t{name}\n" for number, name in enumerate(_names())))
    journal = Journal(spool)
    journal.write("apis", {f"{_RUNTIME}:{_LAUNCH}": "cudaLaunchKernel_v7000"})
    opened = {"source_id": "w0", "previous_source_id": None, "start_ns": 0, "clock_offset_ns": time.time_ns(),
              "capture": "cupti", "capture_code": None, "capture_text": None}  # fmt: skip
    journal.write("open", opened)
    data, end_ns = _records()
    events_path(spool, 0).write_bytes(data)
    close = {"source_id": "w0", "end_ns": end_ns, "reason": "stopped", "position": (0, len(data)),
             "produced": {"kernel": PAIRS, "api": PAIRS}, "dropped": {}}  # fmt: skip
    journal.write("close", close)
    journal.write("exit", {"state": "completed", "exit_code": None})
    journal.close()


def _names() -> list[str]:
    """60 names of 79 to 159 characters."""
    chosen = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz_0123456789<>,: "
    return [f"kernel_{each:02d}_" + "".join(chosen.choices(letters, k=69 + chosen.randrange(81))) for each in range(60)]


def _records() -> tuple[bytes, int]:
    """Records as the shim writes them, device and API records in turns of a buffer; and the end of the last."""
    chosen = random.Random(2)
    typical = [chosen.uniform(3_000, 80_000) for _ in range(60)]
    grids = [chosen.randrange(1, 4_096) for _ in range(60)]
    out, launches, kernels = bytearray(), bytearray(), bytearray()
    host_ns = device_ns = 1_000_000
    for number in range(1, PAIRS + 1):
        # A training step runs much the same kernels in the same order each time.
        name = number * 7919 % 1013 % 60
        host_ns += int(chosen.expovariate(1 / _GAP_NS))
        launch_ns = int(chosen.gauss(_LAUNCH_NS, 0.15 * _LAUNCH_NS))
        launches += _RECORD.pack(_RUNTIME, 0, 0, _LAUNCH, host_ns, launch_ns, number, 77, 0, 0)
        host_ns += launch_ns
        device_ns = max(device_ns + int(chosen.expovariate(1 / 1_500)), host_ns)
        duration_ns = int(typical[name] * chosen.gauss(1, 0.03))
        kernels += _RECORD.pack(_KERNEL, 0, 7, name, device_ns, duration_ns, number, grids[name], 256, 0)
        device_ns += duration_ns
        if number % 1_200 == 0 or number == PAIRS:
            out += launches + kernels
            launches, kernels = bytearray(), bytearray()
    assert len(out) == 2 * PAIRS * RECORD_BYTES
    return bytes(out), device_ns


def _columns(lake: Path, kind: str) -> dict[str, float]:
    """Compressed bytes per row of each column, and of what is not column data (the footers)."""
    found: dict[str, int] = {}
    rows = total = 0
    for path in raw_root(lake).glob(f"{kind}/**/*.parquet"):
        about = pq.ParquetFile(path).metadata
        rows, total = rows + about.num_rows, total + path.stat().st_size
        for group in range(about.num_row_groups):
            for each in range(about.num_columns):
                column = about.row_group(group).column(each)
                name = column.path_in_schema
                found[name] = found.get(name, 0) + column.total_compressed_size
    found["footer"] = total - sum(found.values())
    return {name: round(size / rows, 4) for name, size in sorted(found.items(), key=lambda item: -item[1])}


# Kineto's traces ------------------------------------------------------------------------------------------------------


def _files() -> list[Path]:
    return sorted(path for path in TRACES.rglob("*") if path.name.endswith((".json", ".json.gz")))


def _trace(path: Path) -> dict[str, Any] | None:
    """Sizes of a trace as Kineto wrote it and as raw data; None where it has few GPU events or is none."""
    given = path.read_bytes()
    text = gzip.decompress(given) if path.name.endswith(".gz") else given
    events = sum(text.count(category) for category in _DEVICE_CATEGORIES)
    if events < LEAST_GPU_EVENTS:
        return None
    packed = len(given) if path.name.endswith(".gz") else len(gzip.compress(text, 6))
    result: dict[str, Any] = {"json_bytes": len(text), "json_gz_bytes": packed}
    for name, operators in (("operators_off", False), ("operators_on", True)):
        with tempfile.TemporaryDirectory() as folder:
            lake = Path(folder)
            done = import_one(path, lake, ImportOptions("bench", operators=operators))
            rows = _rows(lake)
            if not isinstance(done, Imported) or rows.get("kernel", 0) + rows.get("memop", 0) <= LEAST_GPU_EVENTS:
                return None
            sizes = _sizes(lake)
        size, about = sum(sizes.values()), sizes["source"] + sizes["manifest"]
        result["gpu_events"] = rows.get("kernel", 0) + rows.get("memop", 0)
        result[name] = {
            "raw_bytes": size,
            "of_them_source_and_manifest_bytes": about,
            "rows": sum(rows.values()),
            "of_json": round(len(text) / size, 1),
            "of_json_gz": round(packed / size, 2),
            "events_alone_of_json_gz": round(packed / (size - about), 2),
        }
    return result


def _sizes(lake: Path) -> dict[str, int]:
    """Bytes below raw/v1 by folder: the kinds, and the manifests, which also hold hashes of the imported file."""
    sizes: dict[str, int] = {}
    for file in raw_root(lake).rglob("*"):
        if file.is_file():
            kind = file.relative_to(raw_root(lake)).parts[0]
            sizes[kind] = sizes.get(kind, 0) + file.stat().st_size
    return sizes


def _rows(lake: Path) -> dict[str, int]:
    rows: dict[str, int] = {}
    for _, manifest in manifests(raw_root(lake)):
        for segment in manifest.segments:
            rows[segment.kind] = rows.get(segment.kind, 0) + segment.rows
    return rows
