"""Capture by PyTorch's own profiler, for short windows where our shim cannot be used.

It keeps a window in memory until its end and then needs some 10 µs for each event. So a window is bounded, and all of
this happens in a thread of its own, which torch also demands: who starts its profiler must stop it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from tracelake.recorder import facts
from tracelake.recorder.capture import Counts, Unavailable
from tracelake.recorder.capture.driver import devices
from tracelake.recorder.capture.kineto_records import CALLS, GROUPS, KERNEL, Record, record_of
from tracelake.recorder.capture.libraries import driver
from tracelake.recorder.log import once
from tracelake.recorder.spool import NAMES, events_path

WINDOW_SECONDS = 30.0
WINDOW_EVENTS = 2_000_000
FILE_BYTES = 64 << 20
_CHUNK_RECORDS = 4096
_CALL_SECONDS = 60.0


class Tool(Protocol):
    def enable(self) -> None:
        """Begin to collect. Raises RuntimeError where another profiler runs."""

    def disable(self) -> Iterable[Any]:
        """End, in the same thread, and hand over torch's events."""


class TorchProfiler:
    """The private functions behind torch.profiler, without the processing that makes it slow."""

    def __init__(self, torch: Any, activity: str = "CUDA") -> None:
        self._torch = torch
        self._activities = {getattr(torch.profiler.ProfilerActivity, activity)}

    def enable(self) -> None:
        autograd = self._torch.autograd
        config = autograd.ProfilerConfig(
            autograd.ProfilerState.KINETO, False, False, False, False, False, self._experimental()
        )
        autograd._prepare_profiler(config, self._activities)
        autograd._enable_profiler(config, self._activities)

    def disable(self) -> Iterable[Any]:
        events: Iterable[Any] = self._torch.autograd._disable_profiler().events()
        return events

    def _experimental(self) -> Any:
        """What this torch knows of: synchronizations, sizes, and no link to operators that are not recorded."""
        make = self._torch._C._profiler._ExperimentalConfig
        links = {"disable_external_correlation": True, "enable_cuda_sync_events": True}
        for wanted in ({**links, "expose_kineto_event_metadata": True}, links):
            with contextlib.suppress(TypeError):
                return make(**wanted)
        return make()


class Kineto:
    """One per process. Times are of CLOCK_MONOTONIC, to within the microsecond or so by which clocks are compared."""

    name = "kineto"

    def __init__(self, folder: Path, tool: Tool, window_seconds: float = WINDOW_SECONDS) -> None:
        """Raises OSError where the folder cannot be written."""
        self._tool, self._window_seconds = tool, window_seconds
        self._records = Records(folder)
        self._lock = threading.Lock()
        self._wanted = self._paused = self._closed = False
        self._left_ns: int | None = None
        self._queue: SimpleQueue[tuple[str, threading.Event] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tracelake-kineto", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, folder: Path) -> Kineto:
        """Ready to start. Raises Unavailable (no_cupti) unless torch is imported and has CUDA."""
        torch = sys.modules.get("torch")
        try:
            if torch is None or not torch.cuda.is_available():
                raise Unavailable("no_cupti", "PyTorch with CUDA is not there to stand in for the shim")
            tool = TorchProfiler(torch)
            if not torch.autograd.kineto_available() or not tool._activities <= torch.autograd._supported_activities():
                raise Unavailable("no_cupti", "this PyTorch was built without its GPU profiler")
            return cls(folder, tool)
        except (AttributeError, OSError, RuntimeError) as error:
            raise Unavailable("no_cupti", f"PyTorch's profiler cannot be used: {error}") from error

    # Called by the recording and by whoever runs another profiler -----------------------------------------------------

    def start(self) -> None:
        with self._lock:
            self._wanted, self._left_ns = True, None
            if not self._paused:
                self._call("enable")

    def stop(self) -> None:
        with self._lock:
            self._wanted = False
            self._call("disable")
            self._call("wait")

    def pause(self) -> None:
        """Leave torch's profiler to the script; its next one may start when this returns."""
        with self._lock:
            self._paused = True
            self._call("disable")

    def resume(self) -> bool:
        with self._lock:
            self._paused = False
            if self._wanted:
                self._call("enable")
            return True

    def set_writing(self, on: bool) -> None:
        self._records.is_writing = on

    def counts(self) -> Counts:
        return Counts(dict(self._records.produced), dict(self._records.dropped))

    def position(self) -> tuple[int, int]:
        return self._records.position()

    def apis(self) -> dict[str, str]:
        """Function names by "kind:number", as records refer to them."""
        return {f"{kind}:{number}": name for name, (kind, number) in reversed(CALLS.items())}

    def devices(self) -> list[dict[str, Any]]:
        try:
            return devices(driver(initialize=True))
        except Unavailable:
            return []

    def take_gap(self) -> dict[str, Any] | None:
        """What is missing at the end of a window that was longer than its bound; once, after `stop`."""
        start_ns, self._left_ns = self._left_ns, None
        if start_ns is None:
            return None
        return {"start_ns": start_ns, "end_ns": time.monotonic_ns(), "reason": "window_too_long"}

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._wanted = False
            self._call("disable")
            self._closed = True
            self._queue.put(None)
        self._thread.join(_CALL_SECONDS)
        self._records.close()

    def _call(self, action: str) -> None:
        """Have the thread do it, and wait within a bound; in a forked child there is no such thread."""
        if self._closed or not self._thread.is_alive():
            return
        done = threading.Event()
        self._queue.put((action, done))
        if not done.wait(_CALL_SECONDS):
            once("kineto_slow", "PyTorch's profiler has not answered %s for %.0f s", action, _CALL_SECONDS)

    # The thread -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        until: float | None = None
        while True:
            try:
                message = self._queue.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
            except Empty:
                message = ("disable", threading.Event())
                self._left_ns = time.monotonic_ns()
                once("kineto_bound", "GPU events end after %.0f s of a window: install the shim for longer ones",
                     self._window_seconds)  # fmt: skip
            if message is None:
                return
            action, done = message
            found: Iterable[Any] = ()
            try:
                if action == "enable" and until is None:
                    self._tool.enable()
                    until = time.monotonic() + self._window_seconds
                elif action == "disable" and until is not None:
                    until = None
                    found = self._tool.disable()
            except Exception as error:  # noqa: BLE001 -- torch's private parts; the job goes on without GPU events
                once(f"kineto_{action}", "GPU events by PyTorch's profiler fail: %s", error)
            # Before the slow part: another profiler may be waiting to start.
            done.set()
            self._write(found)

    def _write(self, found: Iterable[Any]) -> None:
        try:
            self._records.write(found)
        except Exception as error:  # noqa: BLE001 -- as above
            once("kineto_write", "GPU events by PyTorch's profiler are lost: %s", error)


class Records:
    """Writes events and names of kernels as the shim does: whole records, and each name before its first use."""

    def __init__(self, folder: Path, file_bytes: int = FILE_BYTES) -> None:
        self._folder, self._file_bytes = folder, file_bytes
        self._number = self._size = 0
        self._file = self._open(events_path(folder, 0))
        self._names_file = self._open(folder / NAMES)
        self._names: dict[str, int] = {}
        self.is_writing = True
        self.produced: dict[str, int] = dict.fromkeys(GROUPS.values(), 0)
        self.dropped: dict[str, int] = dict(self.produced)

    @staticmethod
    def _open(path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def position(self) -> tuple[int, int]:
        return self._number, self._size

    def write(self, events: Iterable[Any], most: int = WINDOW_EVENTS) -> None:
        """Write all that are recorded; those beyond `most`, and those that the disk refuses, are counted as dropped."""
        offset_ns = facts.clock_offset_ns()
        idents = {thread.native_id: thread.ident for thread in threading.enumerate()}
        chunk: list[Record] = []
        taken = 0
        for event in events:
            record = record_of(event, lambda tid: idents.get(tid) or tid)
            if record is None:
                continue
            taken += 1
            self.produced[GROUPS[record.kind]] += 1
            if taken > most:
                self.dropped[GROUPS[record.kind]] += 1
                continue
            chunk.append(record)
            if len(chunk) == _CHUNK_RECORDS:
                self._put(chunk, offset_ns)
                chunk = []
        self._put(chunk, offset_ns)

    def _put(self, chunk: list[Record], offset_ns: int) -> None:
        try:
            if not self.is_writing:
                raise OSError("the spool is full")
            self._append(b"".join(r.packed(self._name(r), offset_ns) for r in chunk))
        except OSError as error:
            once("kineto_spool", "GPU events are dropped and counted: %s", error)
            for record in chunk:
                self.dropped[GROUPS[record.kind]] += 1

    def _append(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._file_bytes:
            fd = self._open(events_path(self._folder, self._number + 1))
            os.close(self._file)
            self._file, self._number, self._size = fd, self._number + 1, 0
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, memoryview(data)[written:])
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)

    def _name(self, record: Record) -> int:
        if record.kind != KERNEL:
            return record.name
        number = self._names.get(record.text)
        if number is None:
            number = len(self._names)
            text = record.text.replace("\t", " ").replace("\n", " ")
            os.write(self._names_file, f"{number}\t{text}\n".encode("utf-8", "backslashreplace"))
            self._names[record.text] = number
        return number

    def close(self) -> None:
        os.close(self._file)
        os.close(self._names_file)
