"""Where a sidecar stands, so that another one can go on from there: nothing twice, nothing lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tracelake.recorder.sidecar.source_rows import Closing
from tracelake.recorder.sidecar.window import Window
from tracelake.recorder.spool import EventsReader, JournalReader, remove_read

if TYPE_CHECKING:
    from tracelake.recorder.sidecar.loop import Loop

FILE = "checkpoint.json"


def save(loop: Loop) -> None:
    """Write the state as a whole, and then remove the spool's files that it makes superfluous. Raises OSError.

    What is read and not yet in segments is put aside with it. A segment written after the last checkpoint is written
    again by the sidecar that goes on from there, under the same name, before any manifest lists it.
    """
    last = None
    if loop.last is not None:
        window, closing = loop.last
        last = window.save(loop.folder), vars(closing)
    state = {
        "journal": loop.journal.position, "events": loop.events.position, "about": loop.about, "apis": loop.apis,
        "threads": loop.native.threads, "window": loop.window.save(loop.folder) if loop.window else None, "last": last,
    }  # fmt: skip
    aside = loop.folder / f".{FILE}.tmp"
    aside.write_text(json.dumps(state))
    aside.replace(loop.folder / FILE)
    remove_read(loop.folder, loop.journal.position, loop.events.position)


def restore(loop: Loop) -> None:
    """Put a new loop where the old one stood, if there was one."""
    path = loop.folder / FILE
    if not path.exists():
        return
    state = json.loads(path.read_text())
    loop.journal = JournalReader(loop.folder, tuple(state["journal"]))
    loop.events = EventsReader(loop.folder, tuple(state["events"]))
    loop.about.update(state["about"])
    loop.apis.update(state["apis"])
    loop.native.learn_apis(loop.apis)
    loop.native.threads = {int(ident): native_id for ident, native_id in state["threads"].items()}
    if state["window"]:
        loop.window = Window.restore(loop.outbox, loop.about, loop.folder, state["window"])
        loop.window.flag("sidecar_restarted")
    if state["last"]:
        window, closing = state["last"]
        loop.last = Window.restore(loop.outbox, loop.about, loop.folder, window), Closing(**closing)
