"""Script time of a timeline's frames while a reader pans and zooms: a million events, all of them in view."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chromium import Chromium

EVENTS = 1_000_000
_TESTS = Path(__file__).parents[1] / "tests/reports"
# From the whole window into it, out again, and along it, at every density of events.
VIEWS = (
    [(-0.02 + i * 1e-4, 1.02 + i * 1e-4) for i in range(40)]
    + [(0.4 - 0.4 * 0.93**i, 0.4 + 0.6 * 0.93**i) for i in range(100)]
    + [(0.01 * i, 0.01 * i + 0.3) for i in range(60)]
)
TRACKS = 14
_FRAME = (
    "(async () => {{ timeline.look({{from: {0} * L, to: {1} * L}}); await new Promise(requestAnimationFrame); }})()"
)
_OPEN_ALL = (
    "(() => { for (const t of timeline.model.tracks) timeline.state.open.add(t.id);"
    " timeline.select(-1); window.L = timeline.model.length; })()"
)


def measure() -> dict[str, Any]:
    """Milliseconds of script per frame over 200 views, by time of the page's thread."""
    # The hand-made events and the browser are those of the tests.
    sys.path[:0] = [str(_TESTS), str(_TESTS / "timeline")]
    import sample_timeline
    from chromium import Chromium

    from tracelake.reports.timeline.page import timeline_page

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.html"
        file.write_text(timeline_page(sample_timeline.large(EVENTS), made_ns=1), encoding="utf-8")
        with Chromium() as browser:
            browser.open(file)
            times = sorted(frames(browser))
        size = file.stat().st_size
    at = {"p50": len(times) // 2, "p95": int(len(times) * 0.95), "max": -1}
    return {
        "events": EVENTS,
        "tracks": TRACKS,
        "views": len(times),
        "page_bytes": size,
        "script_ms_per_frame": {name: round(times[i], 2) for name, i in at.items()},
    }


def frames(browser: Chromium) -> list[float]:
    """Script milliseconds of each view of an open page, with all of its tracks on the screen."""
    while browser.run("document.body.dataset.timeline") != "drawn":
        pass
    browser.run(_OPEN_ALL)
    browser.run("document.querySelector('[data-tl=scroll]').scrollTop = 110")
    body = "document.querySelector('[data-tl=body]').height"
    inside = f"r.lanes.length && r.y >= 110 && r.y + r.height <= 110 + {body}"
    shown = browser.run(f"timeline.state.rows.filter((r) => {inside}).length")
    if shown != TRACKS:
        raise RuntimeError(f"{shown} of {TRACKS} tracks are on the screen")
    # Time of the thread, not of the clock: other programs' share of the processor is not the page's.
    browser.call("Performance.enable", timeDomain="threadTicks")
    return [_frame_ms(browser, view) for view in VIEWS]


def _frame_ms(browser: Chromium, view: tuple[float, float]) -> float:
    before = _script_seconds(browser)
    browser.run(_FRAME.format(*view))
    return 1_000 * (_script_seconds(browser) - before)


def _script_seconds(browser: Chromium) -> float:
    metrics = {m["name"]: m["value"] for m in browser.call("Performance.getMetrics")["metrics"]}
    return float(metrics["ScriptDuration"])
