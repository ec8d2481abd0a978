"""Timelines of the hand-made step, written once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import sample_timeline
from chromium import Chromium

from tracelake.reports.timeline.page import timeline_page

MADE_NS = 1_795_974_000_000_000_000
Open = Callable[..., Chromium]


@pytest.fixture(scope="session")
def opened(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Open:
    """`opened("rows")`: the browser with the timeline of that sample, drawn."""
    folder = tmp_path_factory.mktemp("timelines")

    def show(name: str, width: int = 1440, *, dark: bool = False, address: str = "") -> Chromium:
        file = folder / f"{name}.html"
        if not file.exists():
            file.write_text(timeline_page(getattr(sample_timeline, name)(), made_ns=MADE_NS), encoding="utf-8")
        browser.open(file, width, dark=dark)
        if address:
            browser.call("Page.navigate", url="about:blank")
            browser.call("Page.navigate", url=file.as_uri() + address)
        end = time.monotonic() + 60
        while browser.run("document.body?.dataset.timeline") != "drawn":
            assert time.monotonic() < end, browser.messages()
            time.sleep(0.05)
        return browser

    return show
