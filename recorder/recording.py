"""What a process records: its spool, its windows, the flush thread, and the sidecar that does the rest.

Nothing here raises into the training script, takes a lock on its path, or imports a heavy library.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tracelake import __version__
from tracelake.recorder import annotation, control, facts
from tracelake.recorder.capture import NO_GPU, Capture, Counts, Unavailable
from tracelake.recorder.capture.conflicts import Conflicts
from tracelake.recorder.hooks import CudaWatch, when_cuda_starts
from tracelake.recorder.log import LOG, once
from tracelake.recorder.outgoing import Outgoing
from tracelake.recorder.schedule import Schedule
from tracelake.recorder.settings import BadSetting, Settings
from tracelake.recorder.sidecar.parent import start_ticks
from tracelake.recorder.sidecar.start import LAUNCH_FOLDER, Sidecar
from tracelake.recorder.spool import PROCESS, used_bytes

if TYPE_CHECKING:
    from tracelake.recorder.identity import Identity

STOP_SECONDS = 2.0
_HOUSEKEEPING_SECONDS = 0.5


class Recording:
    """One per process. Windows open and close in it; it ends with the process."""

    def __init__(self, settings: Settings, identity: Identity, *, defer_capture: bool = False) -> None:
        """Create the spool and start the sidecar. Raises BadSetting where the spool cannot be written.

        With `defer_capture` the GPU is left alone until the process itself starts CUDA: a process that never does may
        fork others that do.
        """
        self.settings, self.identity = settings, identity
        self.process_id = os.getpid()
        self.folder = _spool_folder(settings, identity)
        self.outgoing = Outgoing(self.folder, settings.annotation_budget_count)
        self.capture: Capture | None = None
        self.capture_reason: Unavailable | None = None
        self._cuda: CudaWatch | None = None
        self._next_source_id = uuid7()
        self._previous_source_id: str | None = None
        self._window: dict[str, Any] | None = None
        self._lock = threading.RLock()
        self._wake, self._ended, self._closing = threading.Event(), threading.Event(), threading.Event()
        self._closed = threading.Event()
        self._stop_reason = ""
        self._conflicts = Conflicts()
        self._schedule = Schedule(settings.windows)
        self._facts: dict[str, Any] = {}
        self._error: BaseException | None = None
        facts.write_process(self.folder / PROCESS, self._describe())
        self.sidecar = Sidecar(self.folder, in_process=not settings.sidecar)
        self.sidecar.start()
        self._thread = threading.Thread(target=self._run, name="tracelake-flush", daemon=True)
        self._thread.start()
        if settings.gpu and defer_capture:
            self.capture_reason = Unavailable("no_cuda_work", "the process has not started CUDA")
            self._cuda = when_cuda_starts(self._cuda_starts)
        self._is_captured = not settings.gpu or defer_capture
        if self._schedule.follows_steps:
            annotation.set_watch(self._on_text)

    def _describe(self) -> dict[str, Any]:
        return {
            "recorder_version": __version__,
            "settings": self.settings.as_dict(),
            "identity": asdict(self.identity),
            "first_source_id": self._next_source_id,
            "loaded_ns": time.monotonic_ns(),
            "clock_offset_ns": facts.clock_offset_ns(),
            "start_ticks": start_ticks(self.process_id),
            "visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "work_folder": str(Path.cwd()),
            "launch_folder": os.environ.get(LAUNCH_FOLDER),
        }

    # Windows ------------------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """What the script's start_profiling does: open a window, or let the schedule open some."""
        if self._schedule.ask():
            self.start()

    def dismiss(self) -> None:
        """What the script's stop_profiling does: close the window, and let the schedule open no more."""
        self._schedule.dismiss()
        self.stop()

    def start(self) -> None:
        """Open a window, unless one is open. GPU events are asked for once, at the first window."""
        if self._closing.is_set():
            self._closed.wait(STOP_SECONDS)
        with self._lock:
            if self._window is not None or self._ended.is_set():
                return
            if not self._is_captured:
                self._is_captured = True
                self._open_capture()
            self._start_capture()
            self._window = {
                "source_id": self._next_source_id,
                "previous_source_id": self._previous_source_id,
                "start_ns": time.monotonic_ns(),
                "clock_offset_ns": facts.clock_offset_ns(),
                **self._capture_state(),
            }
            self._before = self._counts()
            self._previous_source_id, self._next_source_id = self._next_source_id, uuid7()
            self.outgoing.must("open", self._window)
            annotation.set_recording(True)

    def stop(self, reason: str = "stopped", wait_seconds: float = STOP_SECONDS) -> None:
        """Close the window. The flush thread empties the tool's buffers; the caller waits for it, within a bound."""
        with self._lock:
            if self._window is None or self._closing.is_set():
                return
            annotation.set_recording(False)
            self._window["end_ns"] = time.monotonic_ns()
            self._stop_reason = reason
            self._closed.clear()
            self._closing.set()
            self._wake.set()
        if threading.current_thread() is not self._thread and not self._closed.wait(wait_seconds):
            once("slow_stop", "the tool still flushes after %.0f s; the window closes in the background", wait_seconds)

    def _close_window(self) -> None:
        window = self._window
        if window is None:
            return
        if self.capture is not None:
            self.capture.stop()
            if gap := self._conflicts.finish(self.capture):
                self.outgoing.must("gap", gap)
        self.outgoing.flush()
        produced, dropped = _difference(self._counts(), self._before)
        end = {
            "source_id": window["source_id"],
            "end_ns": window["end_ns"],
            "reason": self._stop_reason,
            "position": self.capture.position() if self.capture else None,
            "produced": produced,
            "dropped": dropped,
        }
        self.outgoing.must("close", end)
        self._window = None
        self._closing.clear()
        self._closed.set()

    def _start_capture(self) -> None:
        if self.capture is not None:
            self.capture.start()
            self._conflicts.watch(self.capture)

    def _capture_state(self) -> dict[str, str | None]:
        reason = self.capture_reason
        return {
            "capture": self.capture.name if self.capture else "none",
            "capture_code": reason.code if reason else None,
            "capture_text": str(reason) if reason else None,
        }

    def _cuda_starts(self) -> None:
        """Called once, in the thread that is about to start CUDA: the last moment at which asking is cheap."""
        with self._lock:
            self.capture_reason = None
            self._open_capture()
            if self._window is not None and not self._closing.is_set():
                self._start_capture()
                self.outgoing.must("capture", self._capture_state())

    def _open_capture(self) -> None:
        from tracelake.recorder.capture.choose import open_capture

        try:
            self.capture = open_capture(self.folder, self.settings)
            self.outgoing.must("apis", self.capture.apis())
            self.outgoing.must("devices", self.capture.devices())
        except Unavailable as error:
            self.capture_reason = error
        except Exception as error:  # noqa: BLE001 -- whatever the driver does, the job and its annotations go on
            self.capture_reason = Unavailable("capture_error", f"{type(error).__name__}: {error}")
        if self.capture_reason is not None and self.capture_reason.code not in NO_GPU:
            LOG.warning("no GPU events (%s): %s", self.capture_reason.code, self.capture_reason)

    def _counts(self) -> Counts:
        """Events so far, those of the annotations with them."""
        native = self.capture.counts() if self.capture else Counts()
        return Counts(dict(native.produced), {**native.dropped, "annotation": self.outgoing.collector.dropped_count})

    def _on_text(self, text: str) -> None:
        wanted = self._schedule.at(text)
        if wanted is True:
            self.start()
        elif wanted is False:
            self.stop("schedule", wait_seconds=0)

    # The flush thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        next_care = 0.0
        while not self._ended.is_set():
            self._wake.wait(self.settings.flush_ms / 1000)
            self._wake.clear()
            try:
                if self._closing.is_set():
                    self._close_window()
                self.outgoing.flush()
                if time.monotonic() >= next_care:
                    self._housekeeping()
                    next_care = time.monotonic() + _HOUSEKEEPING_SECONDS
            except Exception as error:  # noqa: BLE001 -- the job goes on whatever happens here
                once(f"flush {type(error).__name__}", "recording suffers: %s", error)

    def _housekeeping(self) -> None:
        self.sidecar.check()
        if self._cuda is not None and self._cuda.poll():
            self._cuda = None
        self._obey()
        self._yield_to_others()
        self.outgoing.is_full = used_bytes(self.folder) > self.settings.spool_budget_bytes
        if self.capture is not None:
            self.capture.set_writing(not self.outgoing.is_full)
        self._tell_facts()
        if self._window is not None:
            produced, dropped = _difference(self._counts(), self._before)
            self.outgoing.may("beat", {"at_ns": time.monotonic_ns(), "produced": produced, "dropped": dropped})

    def _tell_facts(self) -> None:
        found = facts.current()
        if found != self._facts:
            self._facts = found
            self.outgoing.must("facts", found)

    def _obey(self) -> None:
        """Do what someone outside asked for, and what the clock says."""
        command = control.take(self.folder)
        wanted = self._schedule.told(command) if command else self._schedule.now()
        if wanted is True:
            self.start()
        elif wanted is False:
            self.stop("control" if command else "schedule")
            self._close_window()

    def _yield_to_others(self) -> None:
        """Leave the tool to another profiler while it runs, and say so in the data."""
        if self.capture is None or self._window is None:
            return
        gap = self._conflicts.poll(self.capture)
        if gap is not None:
            self.outgoing.must("gap", gap)

    # The end ------------------------------------------------------------------------------------------------------

    def finish(self, wait_seconds: float | None = None) -> None:
        """Close what is open, say how the process ended, and give the sidecar a bounded time for the rest."""
        if self._ended.is_set():
            return
        self.stop("exit")
        error = self._error
        stopped = isinstance(error, KeyboardInterrupt)
        state = "completed" if error is None else "stopped" if stopped else "failed"
        self._tell_facts()
        self.outgoing.must("exit", {"state": state, "exit_code": None if error is None else 130 if stopped else 1})
        self._ended.set()
        self._wake.set()
        annotation.set_watch(None)
        if self._cuda is not None:
            self._cuda.cancel()
        self._thread.join(STOP_SECONDS)
        if self.capture is not None:
            self.capture.close()
        self.outgoing.journal.close()
        if wait_seconds is None:
            # Below tracelake-record the launcher waits, and the sidecar waits for its word on how we ended.
            wait_seconds = 0.0 if os.environ.get(LAUNCH_FOLDER) else self.settings.exit_wait_seconds
        self.sidecar.finish(wait_seconds)

    def note_error(self, error: BaseException) -> None:
        self._error = error

    def abandon(self) -> None:
        """In a forked child: the parent's recording is not ours, and none of its threads or locks are either."""
        self.outgoing.journal.abandon()
        self.sidecar.abandon()


def _spool_folder(settings: Settings, identity: Identity) -> Path:
    rank = "x" if identity.rank is None else str(identity.rank)
    name = f"{quote(identity.job_id, safe='')[:80]}-{rank}-{os.getpid()}-{secrets.token_hex(4)}"
    folder = settings.spool / name
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise BadSetting(
            f"spool {settings.spool} cannot be used ({error}); set TRACELAKE_SPOOL to a local folder"
        ) from error
    return folder


def _difference(after: Counts, before: Counts) -> tuple[dict[str, int], dict[str, int]]:
    def less(new: Any, old: Any) -> dict[str, int]:
        return {kind: count - old.get(kind, 0) for kind, count in new.items() if count != old.get(kind, 0)}

    return less(after.produced, before.produced), less(after.dropped, before.dropped)


def uuid7() -> str:
    """A UUID of version 7: its text sorts by time, to a quarter of a microsecond."""
    milliseconds, rest_ns = divmod(time.time_ns(), 1_000_000)
    bits = milliseconds << 80 | 0x7 << 76 | (rest_ns * 4096 // 1_000_000) << 64 | 0b10 << 62 | secrets.randbits(62)
    text = f"{bits:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
