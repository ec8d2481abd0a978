"""What the recorder's thread and CUPTI's callbacks cost per record: a million of them from a stand-in libcupti.

The parse alone is also measured with NVIDIA's own library, where the tests have downloaded it (build/cupti).
"""

from __future__ import annotations

import ctypes
import shutil
import statistics
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tracelake.recorder.capture.cupti import Cupti
from tracelake.recorder.capture.shim import RECORD_BYTES, Shim

ROOT = Path(__file__).parents[1]
RECORDS = 1_000_000
ROUNDS = 5
FLUSHES = 10
"""Per million: what would be half a second of a busy rank."""
TYPICAL_PER_SECOND = 20_000
"""A rank that starts 10,000 kernels a second: a record for each, and one for its launch."""
REAL = "13.0.85"
KERNEL_BYTES, API_BYTES = 216, 40


def measure() -> dict[str, Any]:
    """ns of CPU per record, best and median of five rounds; share of one core at a typical rate."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source, target in (
            (ROOT / "recorder/native/shim.c", "shim.so"),
            (ROOT / "tests/recorder/native/fake_cupti.c", "cupti.so"),
        ):
            command = ["cc", "-O2", "-std=gnu11", "-fPIC", "-shared", str(source), "-o", str(folder / target)]
            subprocess.run([*command, "-ldl", "-lpthread"], check=True)
        rounds = [_drain(folder, number) for number in range(ROUNDS)]
        parse = _parse(folder)
    drain = [each["drain"] for each in rounds]
    request = [each["request"] for each in rounds]
    return {
        "records": RECORDS,
        "drain_and_write_cpu_ns_per_record": {"best": min(drain), "median": statistics.median(drain)},
        "drain_share_of_a_core": round(statistics.median(drain) * TYPICAL_PER_SECOND / 1e9, 6),
        "launching_thread_ns_per_record": {"best": min(request), "median": statistics.median(request)},
        "launching_thread_share": round(statistics.median(request) * TYPICAL_PER_SECOND / 1e9, 6),
        "parse_only_real_cupti_ns_per_record": parse,
    }


def _drain(folder: Path, number: int) -> dict[str, float]:
    """One round, in copies of the libraries: their state is global."""
    here = folder / str(number)
    (here / "spool").mkdir(parents=True)
    shim, fake = (Path(shutil.copy(folder / name, here / name)) for name in ("shim.so", "cupti.so"))
    library = ctypes.CDLL(str(fake))
    # Held: it drains when it is asked to, so that nothing is dropped however fast the stand-in is.
    capture = Cupti.open(here / "spool", period_ms=3_600_000, buffer_count=1024, shim=shim, cupti=str(fake))
    capture.start()
    for _ in range(FLUSHES):
        library.fake_launch_many(RECORDS // 2 // FLUSHES)
        capture.stop()
        capture.start()
    capture.stop()
    stats, counts = capture.stats(), capture.counts()
    capture.close()
    stored = sum(path.stat().st_size for path in (here / "spool").glob("events-*.bin")) // RECORD_BYTES
    assert stored == sum(counts.produced.values()) == RECORDS, (stored, counts)
    shutil.rmtree(here / "spool")
    return {
        "drain": round(stats["drain_cpu_ns"] / RECORDS, 1),
        "request": round(stats["request_ns"] / RECORDS, 2),
    }


def _parse(folder: Path) -> dict[str, float] | None:
    """Conversion alone, walking with the real library; None where it is not there."""
    found = sorted((ROOT / "build" / "cupti" / REAL).rglob("libcupti.so.*"))
    if not found:
        return None
    shim = Shim(Path(shutil.copy(folder / "shim.so", folder / "parse.so")))
    assert shim.load(str(found[0])) is None
    shim.api(5, 211, True)
    names = [ctypes.create_string_buffer(b"kernel_%03d_" % each + b"x" * 110) for each in range(60)]
    pairs = (1 << 18) // (KERNEL_BYTES + API_BYTES)
    data = ctypes.create_string_buffer(pairs * (KERNEL_BYTES + API_BYTES))
    for each in range(pairs):
        at = each * (KERNEL_BYTES + API_BYTES)
        struct.pack_into("<II", data, at, 5, 211)
        struct.pack_into("<I", data, at + API_BYTES, 10)
        struct.pack_into("<Q", data, at + API_BYTES + 104, ctypes.addressof(names[each % len(names)]))
    out = ctypes.create_string_buffer(2 * pairs * RECORD_BYTES)
    results = []
    for _ in range(ROUNDS):
        made, began = 0, time.thread_time_ns()
        while made < RECORDS:
            made += shim.library.tl_parse(data, len(data) - 1, out, 2 * pairs)
        results.append(round((time.thread_time_ns() - began) / made, 1))
    return {"best": min(results), "median": statistics.median(results)}
