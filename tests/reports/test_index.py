"""The list of jobs: as text, and in a browser, where search, dates, states and order choose among ten thousand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sample_index
from chromium import BINARY, Chromium

from tracelake.reports.index import MAX_JOBS, index_data, index_page

MADE_NS = 1_795_974_000_000_000_000
in_browser = pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not installed: pages were not opened")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("index") / "index.html"
    file.write_text(index_page(sample_index.jobs(MAX_JOBS), made_ns=MADE_NS), encoding="utf-8")
    return file


def test_ten_thousand_jobs_are_a_small_page_without_another_origin(page: Path) -> None:
    html = page.read_text("utf-8")
    assert len(html.encode()) < 5_000_000
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert policy and policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert sample_index.HOSTILE not in html
    found = re.search(r'<script type="application/json" id="jobs">(.*?)</script>', html, re.S)
    assert found and len(json.loads(found[1])["rows"]) == MAX_JOBS


def test_what_is_unknown_is_said() -> None:
    html = index_page(sample_index.jobs(7), made_ns=MADE_NS)
    found = re.search(r'<script type="application/json" id="jobs">(.*?)</script>', html, re.S)
    assert found
    data = json.loads(found[1])
    row = dict(zip(data["fields"], data["rows"][6], strict=True))
    assert (row["active"], row["active_text"], row["idle_text"], row["levels"]) == (None, "unknown", "unknown", "")


def test_the_query_is_bounded() -> None:
    asked: list[str] = []

    def query(text: str) -> list[dict[str, Any]]:
        asked.append(text)
        return []

    assert index_data(query) == ()
    assert asked[0].rstrip().endswith(f"LIMIT {MAX_JOBS}")


@in_browser
def test_a_start_that_nobody_knows_is_said_and_in_no_range(browser: Chromium, tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    file.write_text(index_page((replace(sample_index.jobs(1)[0], created_ns=None),), made_ns=MADE_NS), encoding="utf-8")
    browser.open(file)
    assert browser.run("document.querySelector('#jobs-table tbody tr td:nth-child(4)').textContent") == "unknown"
    for name, value in (("to", "2030-01-01"), ("from", "1960-01-01")):
        browser.run(_typed(name, value))
        assert browser.run("document.body.dataset.found") == "0"


@in_browser
@pytest.mark.parametrize("width", [1440, 390])
def test_rows_are_drawn_as_the_reader_scrolls(browser: Chromium, page: Path, width: int) -> None:
    browser.open(page, width)
    assert browser.run("document.body.dataset.found") == str(MAX_JOBS)
    drawn = int(browser.run("document.querySelectorAll('#jobs-table tbody tr').length"))
    assert 0 < drawn < 1_000
    assert browser.messages() == []
    assert browser.requests() == []
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.documentElement.scrollWidth") == width
    links = browser.run(
        "[...document.querySelectorAll('#jobs-table tbody a')].slice(0, 2).map(a => a.getAttribute('href'))"
    )
    assert links == ["job-run-00000.html", "job-run-00001.html"]


def _typed(name: str, value: str) -> str:
    return f"(() => {{ const i = document.querySelector('[data-{name}]'); i.value = '{value}'; i.oninput(); }})()"


@in_browser
def test_search_dates_states_and_order_choose(browser: Chromium, page: Path) -> None:
    first = "document.querySelector('#jobs-table tbody tr td:nth-child(2)').textContent"
    found = "+document.body.dataset.found"
    browser.open(page)
    browser.run(_typed("find", "RUN-0012 vision"))
    assert browser.run(found) == sum(1 for n in range(120, 130) if n % 3 == 1)
    browser.run(_typed("find", ""))
    browser.run(_typed("from", "2026-11-28"))
    assert browser.run(found) == 25  # from midnight of the 29th back to that of the 28th, in UTC
    browser.run(_typed("from", ""))
    browser.run(_typed("to", "2026-11-27"))
    assert browser.run(found) == MAX_JOBS - 25
    browser.run(_typed("to", ""))
    boxes = "[...document.querySelectorAll('[data-state]')]"
    set_to = "(() => {{ for (const b of {}) {{ b.checked = {}; b.oninput(); }} }})()"
    browser.run(set_to.format(boxes, "b.dataset.state === 'failed'"))
    assert browser.run(found) == len([n for n in range(MAX_JOBS) if n % 6 == 2])
    browser.run(set_to.format(boxes, "true"))
    press = "document.querySelector('[data-sort=idle]').onclick()"
    browser.run(press)
    last_known = max(n for n in range(MAX_JOBS) if n % 7 != 6)
    assert browser.run(first) == f"run-{last_known:05d}"
    browser.run(press)
    assert browser.run(first) == "run-00000"
    assert browser.run("document.querySelector('th[aria-sort]').textContent") == "Not computing"
    assert browser.messages() == []
