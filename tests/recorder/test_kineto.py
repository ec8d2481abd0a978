from __future__ import annotations

import struct
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from frameworks import framework_python, run_script, torch_python

from tracelake.recorder import facts
from tracelake.recorder.capture import Unavailable
from tracelake.recorder.capture import kineto as module
from tracelake.recorder.capture.kineto import Kineto, Records
from tracelake.recorder.capture.kineto_records import CALLS, Record, record_of

KERNEL = "void at::native::vectorized_elementwise_kernel<4, float>(int)"


class OldEvent:
    """As torch 1.13 shows an event: microseconds, no type, no metadata."""

    def __init__(
        self, name: str, start_us: int, duration_us: int, device: str, resource: int, correlation: int
    ) -> None:
        self._values = (name, start_us, duration_us, device, resource, correlation)

    def name(self) -> str:
        return self._values[0]

    def start_us(self) -> int:
        return self._values[1]

    def duration_us(self) -> int:
        return self._values[2]

    def device_type(self) -> str:
        return f"DeviceType.{self._values[3]}"

    def device_index(self) -> int:
        return 1

    def device_resource_id(self) -> int:
        return self._values[4]

    def correlation_id(self) -> int:
        return self._values[5]


class NewEvent(OldEvent):
    """As torch 2 shows it: nanoseconds, a type, and metadata as the inside of a JSON object."""

    def __init__(
        self, kind: str, name: str, start_ns: int, duration_ns: int, resource: int, metadata: str = ""
    ) -> None:
        super().__init__(name, 0, 0, "CUDA", resource, 77)
        self._kind, self._start_ns, self._duration_ns, self._metadata = kind, start_ns, duration_ns, metadata

    def start_ns(self) -> int:
        return self._start_ns

    def duration_ns(self) -> int:
        return self._duration_ns

    def activity_type(self) -> str:
        return self._kind

    def metadata_json(self) -> str:
        return self._metadata


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (OldEvent(KERNEL, 5_000, 7, "CUDA", 20, 3), (10, 1, 20, 0, KERNEL, 5_000_000, 7_000, 3, 0, 0, 0)),
        (
            OldEvent("Memcpy HtoD (Pinned -> Device)", 1, 2, "CUDA", 7, 4),
            (1, 1, 7, 1, "", 1_000, 2_000, 4, 0, 0, 2 | 3 << 8),
        ),
        (OldEvent("Memset (Device)", 1, 2, "CUDA", 7, 5), (2, 1, 7, 0, "", 1_000, 2_000, 5, 0, 0, 0)),
        (OldEvent("cudaLaunchKernel", 1, 2, "CPU", 4321, 6), (5, 0, 0xFFFF, 211, "", 1_000, 2_000, 6, 54321, 0, 0)),
        (
            NewEvent("kernel", KERNEL, 11, 12, 20, '"grid": [2, 3, 4], "block": [128, 1, 1], "stream": 20'),
            (10, 1, 20, 0, KERNEL, 11, 12, 77, 24, 128, 0),
        ),
        (
            NewEvent("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 1, 2, 7, '"bytes": 4294967301'),
            (1, 1, 7, 2, "", 1, 2, 77, 5, 1, 3 | 1 << 8),
        ),
        (NewEvent("gpu_memset", "Memset (Device)", 1, 2, 7, '"bytes": 64'), (2, 1, 7, 0, "", 1, 2, 77, 64, 0, 0)),
        (NewEvent("cuda_driver", "cuLaunchKernel", 1, 2, 4321), (4, 0, 0xFFFF, 307, "", 1, 2, 77, 54321, 0, 0)),
        (NewEvent("cuda_sync", "Stream Sync", 1, 2, 7), (38, 1, 7, 3, "", 1, 2, 77, 0, 0, 0)),
        (NewEvent("kernel", KERNEL, 11, 12, -1, "not json"), (10, 1, 0xFFFF, 0, KERNEL, 11, 12, 77, 0, 0, 0)),
    ],
)
def test_events_become_cuptis_records(event: OldEvent, expected: tuple[Any, ...]) -> None:
    assert record_of(event, {4321: 54321}.__getitem__) == Record(*expected)


@pytest.mark.parametrize(
    "event",
    [
        OldEvent("aten::add", 1, 2, "CPU", 1, 1),
        OldEvent("cudaGetDevice", 1, 2, "CPU", 1, 1),
        NewEvent("cpu_op", "aten::add", 1, 2, 1),
        NewEvent("cuda_runtime", "cudaGetDevice", 1, 2, 1),
        NewEvent("gpu_user_annotation", "step", 1, 2, 1),
    ],
)
def test_other_events_are_left_out(event: OldEvent) -> None:
    assert record_of(event) is None


def test_calls_have_the_numbers_that_cupti_gives_them() -> None:
    known = {"cudaLaunchKernel": (5, 211), "cudaLaunchKernelExC": (5, 430), "cudaMemcpyAsync": (5, 41),
             "cudaStreamSynchronize": (5, 131), "cuLaunchKernelEx": (4, 652), "cudaGraphLaunch": (5, 311)}  # fmt: skip
    assert {name: CALLS[name] for name in known} == known


def _read(folder: Path, number: int = 0) -> list[tuple[int, ...]]:
    data = (folder / f"events-{number:05d}.bin").read_bytes()
    return [struct.unpack_from("<BBHIQQIIII", data, at) for at in range(0, len(data), 40)]


def test_records_are_on_the_monotonic_clock_and_names_come_before_them(tmp_path: Path) -> None:
    records = Records(tmp_path)
    at_ns = time.monotonic_ns()
    unix_ns = at_ns + facts.clock_offset_ns()
    records.write([NewEvent("kernel", name, unix_ns, 5, 7) for name in (KERNEL, "b\tc\n", KERNEL)])
    found = _read(tmp_path)
    assert [(record[0], record[3]) for record in found] == [(10, 0), (10, 1), (10, 0)]
    assert abs(found[0][4] - at_ns) < 1_000_000
    assert (tmp_path / "names.tsv").read_text() == f"0\t{KERNEL}\n1\tb c \n"
    assert records.position() == (0, 120)
    assert records.produced["kernel"] == 3
    records.close()


def test_files_rotate_between_records(tmp_path: Path) -> None:
    records = Records(tmp_path, file_bytes=100)
    for _ in range(3):
        records.write([NewEvent("kernel", KERNEL, 1, 5, 7)] * 2)
    assert [len(_read(tmp_path, number)) for number in range(3)] == [2, 2, 2]
    assert records.position() == (2, 80)
    records.close()


def test_what_is_too_much_or_cannot_be_written_is_counted(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write([NewEvent("kernel", KERNEL, 1, 5, 7)] * 5, most=3)
    records.is_writing = False
    records.write([NewEvent("gpu_memset", "Memset (Device)", 1, 5, 7)])
    assert (records.produced["kernel"], records.dropped["kernel"]) == (5, 2)
    assert (records.produced["memop"], records.dropped["memop"]) == (1, 1)
    assert len(_read(tmp_path)) == 3
    records.close()


class Tool:
    """Stands in for torch's profiler: hands over one kernel for each session, in the thread that began it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.threads: set[int] = set()

    def enable(self) -> None:
        self.calls.append("enable")
        self.threads.add(threading.get_ident())

    def disable(self) -> Iterable[Any]:
        self.calls.append("disable")
        self.threads.add(threading.get_ident())
        return [NewEvent("kernel", KERNEL, 1, 5, 7)]


def test_a_window_is_in_the_spool_when_stop_returns(tmp_path: Path) -> None:
    tool = Tool()
    capture = Kineto(tmp_path, tool)
    capture.start()
    capture.stop()
    assert capture.counts().produced["kernel"] == len(_read(tmp_path)) == 1
    assert len(tool.threads) == 1
    assert tool.threads != {threading.get_ident()}
    capture.close()
    assert tool.calls == ["enable", "disable"]
    assert capture.take_gap() is None


def test_pause_and_resume_leave_the_tool_in_between(tmp_path: Path) -> None:
    tool = Tool()
    capture = Kineto(tmp_path, tool)
    capture.start()
    capture.pause()
    assert tool.calls == ["enable", "disable"]
    assert capture.resume()
    capture.stop()
    assert tool.calls == ["enable", "disable"] * 2
    capture.pause()
    capture.start()
    capture.stop()
    assert tool.calls == ["enable", "disable"] * 2
    capture.close()


def test_a_window_that_is_too_long_ends_with_a_gap(tmp_path: Path) -> None:
    tool = Tool()
    capture = Kineto(tmp_path, tool, window_seconds=0.05)
    capture.start()
    deadline = time.monotonic() + 10
    while "disable" not in tool.calls:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    capture.stop()
    gap = capture.take_gap()
    assert gap is not None
    assert gap["start_ns"] <= gap["end_ns"]
    assert gap["reason"] == "window_too_long"
    assert capture.take_gap() is None
    assert tool.calls == ["enable", "disable"]
    capture.close()


def test_a_tool_that_fails_breaks_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tool = Tool()
    tool.enable = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    capture = Kineto(tmp_path, tool)
    capture.start()
    capture.stop()
    capture.close()
    assert "division by zero" in caplog.text
    assert tool.calls == []


@pytest.mark.skipif("torch" in sys.modules, reason="torch is imported in this process")
def test_without_torch_there_is_nothing_to_open(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        Kineto.open(tmp_path)
    assert caught.value.code == "no_cupti"
    assert module.WINDOW_SECONDS <= 30


_REAL = """
import json, struct, tempfile, threading, time, torch
from pathlib import Path
from tracelake.recorder.capture import Unavailable
from tracelake.recorder.capture.kineto import Kineto, TorchProfiler

class AsGpu:
    "A CPU operator that claims to have run on a GPU."
    def __init__(self, event): self._event = event
    def __getattr__(self, name): return getattr(self._event, name)
    def device_type(self): return "DeviceType.CUDA"

class NewAsGpu(AsGpu):
    def activity_type(self): return "kernel"

class Tool(TorchProfiler):
    def disable(self):
        kind = NewAsGpu if hasattr(torch._C._autograd._KinetoEvent, "activity_type") else AsGpu
        return map(kind, super().disable())
    def work(self):
        return torch.ones(4, 4) @ torch.ones(4, 4)
    def enable(self):
        super().enable()
        self.work()   # torch records the operators of the thread that began

try:
    Kineto.open(Path("."))
except Unavailable as error:
    refused = error.code
folder = Path(tempfile.mkdtemp())
capture = Kineto(folder, Tool(torch, "CPU"))
assert capture.devices() == [] and "5:211" in capture.apis() and capture.apis()["5:211"] == "cudaLaunchKernel"
inside = True
for _ in range(2):
    at = capture.position()[1]
    before = time.monotonic_ns(); capture.start(); capture.stop(); after = time.monotonic_ns()
    data = (folder / "events-00000.bin").read_bytes()[at:]
    rows = [struct.unpack_from("<BBHIQQIIII", data, place) for place in range(0, len(data), 40)]
    first, last = before - 100_000, after + 100_000
    inside = inside and bool(rows) and all(first <= row[4] <= row[4] + row[5] <= last for row in rows)
# Afterwards the profiler is free for the script.
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler: torch.ones(2)
capture.close()
print(json.dumps([refused, inside, "aten::ones" in (folder / "names.tsv").read_text(), len(profiler.events()) > 0]))
"""


@pytest.mark.parametrize("environment", ["torch", "modern"])
def test_torchs_profiler_for_real_on_the_cpu(environment: str) -> None:
    python = torch_python() if environment == "torch" else framework_python("torch", environment)
    assert run_script(python, _REAL) == ["no_cupti", True, True, True]
