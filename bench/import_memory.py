"""Peak memory of importing ten million kernels on one line: it must not grow with the file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.child import PEAK, measured

_CODE = (
    """
import json, sys, time
from pathlib import Path
started = time.monotonic()
from tracelake.recorder.importers import ImportOptions, import_one
done = import_one(Path(sys.argv[1]), Path(sys.argv[2]), ImportOptions("bench"))
seconds = time.monotonic() - started
"""
    + PEAK
    + 'print(json.dumps({"inner_s": seconds, "peak_bytes": peak, "rows": done.rows_read}))'
)
LIMIT_BYTES = 1 << 30


def write_one_line(path: Path, kernels: int) -> None:
    """A trace on one line: kernels of 5 us every 10 us, each with its launch's correlation id."""
    name = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, at::detail::Array<char*, 3> >"
    )
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [')
        for start in range(0, kernels, 100_000):
            rows = (_kernel(name, i) for i in range(start, min(start + 100_000, kernels)))
            file.write(("" if start == 0 else ", ") + ", ".join(rows))
        file.write("]}")


def _kernel(name: str, number: int) -> str:
    start = 1_700_000_000_000_000 + number * 10
    args = f'{{"device": 0, "stream": 7, "correlation": {number + 1}}}'
    return (
        f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {start}, "dur": 5, "args": {args}}}'
    )


def measure() -> dict[str, Any]:
    """1 million and 10 million kernels; the limit holds for both."""
    result: dict[str, Any] = {"limit_bytes": LIMIT_BYTES}
    for kernels in (1_000_000, 10_000_000):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json"
            write_one_line(trace, kernels)
            size = trace.stat().st_size
            result[f"{kernels} kernels"] = {"file_bytes": size, **measured(_CODE, str(trace), f"{folder}/lake")}
    return result
