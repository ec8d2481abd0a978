"""Follows the spool of one process until it ends, and turns it into segments."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracelake.recorder.samplers import Reading
from tracelake.recorder.settings import Settings
from tracelake.recorder.sidecar import checkpoint
from tracelake.recorder.sidecar.convert import Native
from tracelake.recorder.sidecar.deliver import LAST_SECONDS, Delivery, target
from tracelake.recorder.sidecar.names import Names
from tracelake.recorder.sidecar.parent import Parent, launcher_verdict
from tracelake.recorder.sidecar.roll import MOST_EVENTS, Roll
from tracelake.recorder.sidecar.sampling import Sampling
from tracelake.recorder.sidecar.source_rows import Closing, described
from tracelake.recorder.sidecar.window import Window
from tracelake.recorder.spool import PROCESS, RECORD_BYTES, EventsReader, JournalReader
from tracelake.schemas.manifest import RAW_VERSION

LOG = logging.getLogger("tracelake.recorder.sidecar")
TURN_SECONDS = 0.25
MOST_PENDING = 4
"""Segments' worth of rows that may wait in memory for a disk that cannot be written."""
OUTBOX = "outbox"


class Loop:
    """One process's spool. Everything in it survives this process: a new one goes on from the last checkpoint."""

    def __init__(self, folder: Path, *, sample: bool = True) -> None:
        """Raises OSError or ValueError where the folder is no spool."""
        self.folder = folder
        self.process: dict[str, Any] = json.loads((folder / PROCESS).read_text())
        self.settings = Settings.from_dict(self.process["settings"])
        self.about = described(self.process)
        self.parent = Parent(self.process["identity"]["process_id"], self.process["start_ticks"])
        self.outbox = folder / OUTBOX / RAW_VERSION
        self.outbox.mkdir(parents=True, exist_ok=True)
        self.delivery = Delivery(self.outbox, target(self.settings, Path(self.process["work_folder"])))
        self.native = Native(Names(folder))
        self.window: Window | None = None
        self.last: tuple[Window, Closing] | None = None
        self.roll: Roll | None = None
        self.exit: Mapping[str, Any] | None = None
        # A frame that was read and could not be dealt with, for a disk that cannot be written.
        self._in_hand: tuple[str, Any] | None = None
        self._abandoned: set[int] = set()
        self.apis: dict[str, str] = {}
        self.journal, self.events = JournalReader(folder), EventsReader(folder)
        self._early: list[tuple[str, list[Reading]]] = []
        checkpoint.restore(self)
        self._turns_of_data = 0
        self._next_flush = time.monotonic() + self._age()
        identity = {**self.process["identity"], "visible_devices": self.process["visible_devices"]}
        offset_ns = self.process["clock_offset_ns"]
        self.sampling = Sampling(self.settings, identity, offset_ns) if sample else None

    # Turns --------------------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Until the process has ended and all is delivered; whether it is."""
        if self.sampling is not None:
            self.sampling.start()
        self.delivery.start()
        while True:
            is_alive = self.parent.is_alive()
            self._safely_turn()
            self.delivery.wake()
            if not is_alive or self.exit is not None:
                break
            time.sleep(TURN_SECONDS)
        if self.sampling is not None:
            self.sampling.stop()
        self._finish_with_patience()
        return self.delivery.finish()

    def _finish_with_patience(self) -> None:
        deadline = time.monotonic() + LAST_SECONDS
        while True:
            try:
                return self.finish()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise
                LOG.warning("the end cannot be written: %s", error)
                time.sleep(1)

    def _safely_turn(self) -> None:
        try:
            self.turn()
        except OSError as error:
            # Nothing is lost: what could not be written stays in memory or in the spool, and the next turn tries again.
            LOG.warning("segments cannot be written: %s", error)

    def turn(self) -> None:
        """Read what is new, and write what is due. Raises OSError."""
        if self._in_hand is not None:
            self._handle(*self._in_hand)
        if self.window is not None and self.window.pending_rows >= MOST_PENDING * self.settings.segment_rows:
            # Nothing could be written for long: the rest stays in the spool, which has a budget.
            self._checkpoint(everything=False)
        # Before the journal: whatever lies behind a window's end was written after its closing frame.
        limit = self.events.end()
        for kind, value in self.journal.read():
            self._handle(kind, value)
        self._read_events(limit)
        self._take_readings()
        if self.roll is not None and self.roll.is_due():
            self._finish_roll()
        elif self.window is not None and self.roll is None and self._must_roll(self.window):
            self._start_roll(self.window)
        if self.window is None:
            return
        is_full = self.window.pending_rows >= self.settings.segment_rows
        if is_full or time.monotonic() >= self._next_flush:
            self._checkpoint(everything=not is_full)

    def _age(self) -> float:
        """Seconds until pending rows are written: soon at first, so that a job shows, later at the set interval."""
        return min(self.settings.segment_seconds, float(10 * 6**self._turns_of_data))

    def _checkpoint(self, *, everything: bool) -> None:
        assert self.window is not None
        self.window.flush(everything=everything)
        self._save()
        self._publish(self.window)
        if everything:
            self._turns_of_data += 1
        self._next_flush = time.monotonic() + self._age()

    def _publish(self, window: Window, closing: Closing | None = None) -> None:
        with self.delivery.lock:
            window.publish(self._now_about(), closing)

    def _now_about(self) -> dict[str, Any]:
        if not self.about["devices"] and self.sampling is not None and self.sampling.devices:
            return {**self.about, "devices": self.sampling.devices}
        return self.about

    # What the journal says ----------------------------------------------------------------------------------------

    def _handle(self, kind: str, value: Any) -> None:
        """Deal with a frame. Raises OSError, and keeps the frame then: every handler may be called again."""
        self._in_hand = kind, value
        handler = getattr(self, f"_on_{kind}", None)
        if handler is None:
            LOG.warning("the journal holds a frame %r that this version does not know", kind)
        else:
            handler(value)
        self._in_hand = None

    def _on_apis(self, apis: Mapping[str, str]) -> None:
        self.native.learn_apis(apis)
        self.apis.update(apis)

    def _on_devices(self, devices: list[dict[str, Any]]) -> None:
        self.about["devices"] = devices

    def _on_facts(self, facts: Mapping[str, Any]) -> None:
        self.about["framework"] = facts["framework"] or self.about["framework"]
        self.about["tags"] = {**self.about["tags"], **facts["tags"]}

    def _on_open(self, opened: Mapping[str, Any]) -> None:
        if self.window is not None and self.window.source_id != opened["source_id"]:
            self._close(self.window.last_ns, "no_closing_row")
        if self.window is None:
            self.window = Window(self.outbox, self.about, {**opened, "loaded_ns": self.process["loaded_ns"]})
            for kind, readings in self._early:
                self.window.add_readings(kind, readings)
            self._early = []
            self._turns_of_data = 0
            self._next_flush = time.monotonic() + self._age()
        self._publish(self.window)

    def _on_annotations(self, taken: tuple[int, int, str, list[tuple[int, str, int, int]]]) -> None:
        ident, native_id, _, rows = taken
        self.native.learn_thread(ident, native_id)
        window = self.window
        if window is None:
            return
        for number, text, start_ns, end_ns in rows:
            if not end_ns:
                window.open_ranges[number] = (text, native_id, start_ns)
                window.seen(start_ns)
            elif number in self._abandoned:
                self._abandoned.discard(number)
            else:
                window.open_ranges.pop(number, None)
                window.add_range(text, native_id, start_ns, end_ns)

    def _on_gap(self, gap: dict[str, Any]) -> None:
        if self.window is not None:
            self.window.gaps.append(gap)

    def _on_beat(self, beat: Mapping[str, Any]) -> None:
        if self.window is not None:
            self.window.seen(beat["at_ns"])
            self.window.counted = (dict(beat["produced"]), dict(beat["dropped"]))

    def _on_capture(self, state: Mapping[str, Any]) -> None:
        if self.window is not None:
            self.window.opened.update(state)

    def _on_exit(self, end: Mapping[str, Any]) -> None:
        self.exit = end

    def _on_close(self, end: Mapping[str, Any]) -> None:
        if end["position"] is not None:
            self._read_events(tuple(end["position"]))
        if self.roll is not None:
            self._finish_roll()
        if self.window is None:
            return
        self.window.counted = (dict(end["produced"]), dict(end["dropped"]))
        self.window.is_counted_whole = True
        self._take_readings()
        self._close(end["end_ns"], None)

    # Rows ---------------------------------------------------------------------------------------------------------

    def _read_events(self, until: tuple[int, int]) -> None:
        window = self.window
        if window is None:
            return
        for data in self.events.read(until):
            before = dict(self.native.skipped)
            for kind, rows in self.native.tables(data).items():
                if self.roll is not None:
                    self.roll.add(kind, rows)
                else:
                    window.add(kind, rows)
            for category, count in self.native.skipped.items():
                window.skip(category, count - before.get(category, 0))
            window.native_count += len(data) // RECORD_BYTES
            if window.pending_rows >= self.settings.segment_rows and self.roll is None:
                self._checkpoint(everything=False)

    def _take_readings(self) -> None:
        if self.sampling is None:
            return
        for kind, readings in self.sampling.take():
            if self.window is not None:
                self.window.add_readings(kind, readings)
            else:
                self._early.append((kind, readings))

    # Windows ------------------------------------------------------------------------------------------------------

    def _must_roll(self, window: Window) -> bool:
        # The window's own clock: a step of the wall clock is no midnight.
        now_ns = time.monotonic_ns() + window.clock_offset_ns
        return window.is_over(now_ns) or sum(window.stored.values()) + window.pending_rows >= MOST_EVENTS

    def _start_roll(self, window: Window) -> None:
        self.roll = Roll(window, self._replaced(window))

    def _replaced(self, window: Window) -> Window:
        from tracelake.recorder.recording import uuid7

        at_ns = time.monotonic_ns()
        opened = {**window.opened, "source_id": uuid7(), "previous_source_id": window.source_id, "start_ns": at_ns}
        return Window(self.outbox, self.about, opened)

    def _finish_roll(self) -> None:
        """Close the old window and go on in the new one. Raises OSError, and may then be called again."""
        assert self.roll is not None
        roll = self.roll
        roll.split()
        self._abandoned.update(roll.old.open_ranges)
        self.window = roll.old
        self._close(roll.at_ns, None)
        self.window, self.roll = roll.new, None
        self._save()
        self._publish(roll.new)

    def _close(self, end_ns: int, interrupted: str | None) -> None:
        """Write a window's end. Raises OSError, and may then be called again: what is written is not written twice."""
        window = self.window
        assert window is not None
        window.leave_open()
        closing = window.closing(end_ns, interrupted)
        window.write_losses(closing, str(self.folder))
        window.flush(everything=True)
        self._publish(window, closing)
        window.forget(self.folder)
        self.last, self.window = (window, closing), None
        self._save()

    def finish(self) -> None:
        """The process has ended: close what it left open, and say how it ended in its last window. Raises OSError."""
        if self._in_hand is not None:
            self._handle(*self._in_hand)
        if self.window is None and self.last is None:
            self._open_for_samples()
        if self.roll is not None:
            self._finish_roll()
        if self.window is not None:
            self._read_events(self.events.end())
            self._take_readings()
            was_asked = self.window.opened["start_ns"] is not None
            self._close(self.window.last_ns, "process_ended" if was_asked and self.exit is None else None)
        assert self.last is not None
        state, exit_code = self._verdict()
        window, closing = self.last
        if (state, exit_code) != (closing.state, closing.exit_code):
            self._publish(window, closing.ended(state, exit_code))

    def _verdict(self) -> tuple[str | None, int | None]:
        said = launcher_verdict(self.process["launch_folder"], self.parent)
        if said is not None:
            return said
        if self.exit is not None:
            return self.exit["state"], self.exit["exit_code"]
        return None, None

    def _open_for_samples(self) -> None:
        """No window was ever asked for: what was sampled still belongs to the job."""
        opened = {
            "source_id": self.process["first_source_id"], "previous_source_id": None, "start_ns": None,
            "clock_offset_ns": self.process["clock_offset_ns"], "capture": "none", "capture_code": None,
            "capture_text": None,
        }  # fmt: skip
        self._on_open(opened)

    def _save(self) -> None:
        """A checkpoint: from here a new sidecar goes on. Raises OSError."""
        if self.roll is None:
            checkpoint.save(self)
