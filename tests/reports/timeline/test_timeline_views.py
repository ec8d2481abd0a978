"""Many events in view, panned and zoomed; bench/timeline.py measures the same with a million."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample_timeline
from chromium import BINARY, Chromium

from bench.timeline import VIEWS, frames
from tracelake.reports.timeline.page import timeline_page

COUNT = 60_000


@pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not installed: pages were not opened")
def test_every_view_of_many_events_is_drawn(tmp_path: Path) -> None:
    file = tmp_path / "large.html"
    file.write_text(timeline_page(sample_timeline.large(COUNT), made_ns=1), encoding="utf-8")
    with Chromium() as browser:
        browser.open(file)
        assert len(frames(browser)) == len(VIEWS)
        assert browser.run("timeline.model.total") >= COUNT - 14
        assert browser.messages() == []
