"""Native records and spools made by hand."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

from tracelake.recorder.identity import find
from tracelake.recorder.settings import load
from tracelake.recorder.spool import NAMES, PROCESS, Journal, events_path

_RECORD = struct.Struct("<BBHIqqIIII")
KERNEL, MEMCPY, MEMSET, RUNTIME, SYNC, OVERHEAD, PEER = 10, 1, 2, 5, 38, 17, 22
OFFSET_NS = 1_700_000_000_000_000_000
APIS = {"5:211": "cudaLaunchKernel_v7000", "5:131": "cudaStreamSynchronize_v3020", "5:20": "cudaMalloc_v3020"}
THREAD = 0x7F00_1234_5678


def record(kind: int, start_ns: int, duration_ns: int, correlation: int = 0, *, name: int = 0, device: int = 0,
           stream: int = 0, a: int = 0, b: int = 0, c: int = 0) -> bytes:  # fmt: skip
    return _RECORD.pack(kind, device, stream, name, start_ns, duration_ns, correlation, a, b, c)


def launch(start_ns: int, correlation: int) -> bytes:
    return record(RUNTIME, start_ns, 5_000, correlation, name=211, a=THREAD & 0xFFFFFFFF)


def kernel(start_ns: int, correlation: int, name: int = 0) -> bytes:
    return record(KERNEL, start_ns, 7_000, correlation, name=name, stream=7, a=128, b=256)


class Spool:
    """A spool as a training process writes it. Times are on the monotonic clock."""

    def __init__(self, tmp_path: Path, **settings: Any) -> None:
        self.folder = tmp_path / "spool" / "job-0-1-aa"
        self.folder.mkdir(parents=True)
        self.lake = tmp_path / "lake"
        given = {"output": str(self.lake), "job_id": "job", "rank": 0, **settings}
        chosen, _ = load(given, environ={})
        process = {
            "recorder_version": "test", "settings": chosen.as_dict(), "identity": vars(find(chosen, {})),
            "first_source_id": "w0", "loaded_ns": 500, "clock_offset_ns": OFFSET_NS, "launch_folder": None,
            "start_ticks": None, "visible_devices": None, "work_folder": str(tmp_path),
        }  # fmt: skip
        (self.folder / PROCESS).write_text(json.dumps(process, default=str))
        (self.folder / NAMES).write_text("0\t_Z3addPfS_\n1\tgemm_kernel\n")
        self.journal = Journal(self.folder)
        self.size = 0

    def events(self, *records: bytes) -> None:
        with events_path(self.folder, 0).open("ab") as file:
            self.size += file.write(b"".join(records))

    def open(self, source_id: str, start_ns: int | None = None, previous: str | None = None, **more: Any) -> None:
        opened = {
            "source_id": source_id, "previous_source_id": previous, "clock_offset_ns": OFFSET_NS,
            "start_ns": time.monotonic_ns() if start_ns is None else start_ns, "capture": "cupti",
            "capture_code": None, "capture_text": None, **more,
        }  # fmt: skip
        self.journal.write("open", opened)

    def close(
        self, source_id: str, end_ns: int, produced: dict[str, int], dropped: dict[str, int] | None = None
    ) -> None:
        end = {"source_id": source_id, "end_ns": end_ns, "reason": "stopped", "position": (0, self.size),
               "produced": produced, "dropped": dropped or {}}  # fmt: skip
        self.journal.write("close", end)

    def ranges(self, *rows: tuple[int, str, int, int], thread: int = 42) -> None:
        self.journal.write("annotations", (THREAD, thread, "MainThread", list(rows)))

    def exit(self, state: str = "completed") -> None:
        self.journal.write("exit", {"state": state, "exit_code": None})
        self.journal.close()
