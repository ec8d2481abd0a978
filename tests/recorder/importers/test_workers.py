"""Many files, and files without bound: a dead worker takes only its own, memory does not grow (case 26)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from trace_files import JOB, kernels, live, stored, trace, write

from tracelake.recorder.importers import Imported, ImportOptions, import_all
from tracelake.schemas.manifest import raw_root

OPTIONS = ImportOptions(JOB)
IMPORT = """
import sys
from pathlib import Path
from tracelake.recorder.importers import ImportOptions
from tracelake.recorder.importers.trace_file import import_file
print(import_file(Path(sys.argv[1]), Path(sys.argv[2]), ImportOptions("job")).rows_stored)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
MIB = 1 << 20


def test_several_files_at_once(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.json", trace(kernels(10 + i))) for i in range(5)]
    files.insert(2, write(tmp_path / "bad.json", b"no trace"))
    told: list[tuple[str, float]] = []
    outcomes = list(import_all(files, tmp_path / "lake", OPTIONS, lambda name, share: told.append((name, share))))
    done = [each for each in outcomes if isinstance(each, Imported)]
    assert sorted(each.rows_stored for each in done) == [10, 11, 12, 13, 14]
    assert [each[0] for each in outcomes if not isinstance(each, Imported)] == [str(tmp_path / "bad.json")]
    assert len(live(tmp_path / "lake")) == 5
    assert sorted(name for name, _ in told) == sorted(file.name for file in files)
    assert [share for _, share in told] == [pytest.approx(i / 6) for i in range(1, 7)]


def _reader_of(pipe: Path) -> int:
    """Process id of the worker that has the pipe open."""
    while True:
        for link in Path("/proc").glob("[0-9]*/fd/*"):
            try:
                if link.parts[2] != str(os.getpid()) and link.readlink() == pipe:
                    return int(link.parts[2])
            except OSError:
                continue
        time.sleep(0.05)


def test_a_killed_worker_fails_its_file_and_no_other(tmp_path: Path) -> None:
    pipe = tmp_path / "slow.json"
    os.mkfifo(pipe)
    files = [pipe, *(write(tmp_path / f"{i}.json", trace(kernels(10 + i))) for i in range(3))]

    def kill() -> None:
        with pipe.open("wb", buffering=0) as writer:  # opens once the worker reads
            writer.write(trace(kernels(5))[:300])
            os.kill(_reader_of(pipe), signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    started = time.monotonic()
    outcomes = list(import_all(files, tmp_path / "lake", OPTIONS))
    assert time.monotonic() - started < 60
    killer.join(10)
    failed = [each for each in outcomes if not isinstance(each, Imported)]
    assert len(failed) == 1
    assert failed[0][0] == str(pipe)
    assert str(pipe) in failed[0][1]
    assert "died" in failed[0][1]
    assert "-9" in failed[0][1]
    assert len(stored(tmp_path / "lake", "kernel")) == 10 + 11 + 12


def _one_line(path: Path, count: int) -> Path:
    """A trace on one line: kernels of 5 us, one every 10 us."""
    row = (
        '{"ph":"X","cat":"kernel","name":"void gemm_%d(float*)","pid":0,"tid":7,"ts":%d.%03d,"dur":5.000,'
        '"args":{"device":0,"context":1,"stream":7,"correlation":%d,"grid":[128,1,1],"block":[256,1,1]}}'
    )
    with path.open("w") as file:
        file.write('{"schemaVersion":1,"traceEvents":[')
        for first in range(0, count, 10_000):
            rows = (row % (i % 50, 1_700_000_000_000 + 10 * i, 0, i + 1) for i in range(first, first + 10_000))
            file.write(("," if first else "") + ",".join(rows))
        file.write("]}")
    return path


def _import_apart(file: Path, lake: Path) -> tuple[int, int]:
    """(rows stored, peak resident bytes) of an import in a process of its own."""
    done = subprocess.run([sys.executable, "-c", IMPORT, str(file), str(lake)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows, peak = done.stdout.split()
    return int(rows), int(peak) * 1024


def _columns(lake: Path) -> Iterator[pa.Table]:
    for manifest in live(lake):
        for segment in manifest.segments:
            if segment.kind == "kernel":
                yield pq.ParquetFile(raw_root(lake) / segment.path).read(["start_ns", "duration_ns"])


def _check(tmp_path: Path, count: int, cap: int) -> None:
    file = _one_line(tmp_path / "line.json", count)
    rows, peak = _import_apart(file, tmp_path / "lake")
    file.unlink()
    assert rows == count
    read = pa.concat_tables(_columns(tmp_path / "lake"))
    starts = read["start_ns"].to_numpy()
    assert len(starts) == count
    assert read["duration_ns"].to_numpy().sum() == count * 5_000
    assert starts.max() - starts.min() == (count - 1) * 10_000
    assert peak < cap, f"{peak / MIB:.0f} MiB"


def test_memory_does_not_follow_the_file(tmp_path: Path) -> None:
    _check(tmp_path, 300_000, 300 * MIB)


@pytest.mark.full
def test_case_26_ten_million_kernels_on_one_line(tmp_path: Path) -> None:
    _check(tmp_path, 10_000_000, 1024 * MIB)
