"""The page of runs: as text, in a browser, and its queries with their bounds."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sample_index
import sample_runs
from chromium import BINARY, Chromium

from tracelake.reports.index import index_page
from tracelake.reports.runs import runs_page
from tracelake.reports.runs_data import MAX_JOBS, MAX_RUNS, RunsData, runs_data

MADE_NS = 1_795_974_000_000_000_000
SAMPLES = {"runs": sample_runs.runs, "bare": sample_runs.bare}
SECTIONS = {"figures", "time", "rows", "runs", "deliveries", "definitions"}


def _html(data: RunsData) -> str:
    return runs_page(data, made_ns=MADE_NS)


@pytest.mark.parametrize("name", SAMPLES)
def test_no_section_vanishes_and_every_link_arrives(name: str) -> None:
    html = _html(SAMPLES[name]())
    ids = set(re.findall(r' id="([\w-]+)"', html))
    assert ids >= SECTIONS | set(re.findall(r'href="#([\w-]+)"', html))
    assert len(html.encode()) < 2_000_000
    assert sample_runs.HOSTILE not in html


def test_figures_and_words() -> None:
    html = _html(sample_runs.runs())
    assert "The last run, nightly, failed.</b> &lt;img" in html
    assert "27\u00a0runs on 27\u00a0days; <b>1 failed</b>. 1\u00a0day without a run." in html
    assert "normalize 10\u00a0m\u00a040\u00a0s, aggregate 11\u00a0m\u00a040\u00a0s, check" in html
    assert "3\u202f120 passed, 2 failed, 48 not evaluated" in html
    assert "and 9 more" in html and 'href="job-llm-7b.html"' in html
    assert "13\u00a0deliveries to be tried again." in html
    assert "2026-11-27" in html.partition("Last success")[2][:200]


def test_a_lake_without_runs_says_so() -> None:
    html = _html(sample_runs.bare())
    assert html.count("No run has ended in this lake yet.") == 3
    assert "No delivery is waiting" in html and "none yet" in html


def test_a_last_run_that_succeeded_has_no_banner() -> None:
    data = sample_runs.runs()
    assert 'class="banner' not in _html(replace(data, runs=data.runs[1:]))


def test_the_list_of_jobs_links_it() -> None:
    assert 'href="runs.html"' in index_page(sample_index.jobs(1), made_ns=MADE_NS)
    assert 'href="index.html"' in _html(sample_runs.bare())


def test_the_queries_are_bounded() -> None:
    asked: list[str] = []

    def query(text: str) -> list[dict[str, Any]]:
        asked.append(text)
        return []

    assert runs_data(query) == sample_runs.bare()
    success, runs, days, deliveries = asked
    assert "max(ended_ns)" in success
    assert runs.endswith(f"LIMIT {MAX_RUNS}") and f"slice(r.jobs, 1, {MAX_JOBS})" in runs
    assert re.search(r"LIMIT \d+$", days) and re.search(r"LIMIT \d+$", deliveries)


@pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not installed: pages were not opened")
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", SAMPLES)
def test_the_charts_are_drawn_and_the_page_fits(browser: Chromium, tmp_path: Path, name: str, width: int) -> None:
    file = tmp_path / "runs.html"
    file.write_text(_html(SAMPLES[name]()), encoding="utf-8")
    browser.open(file, width)
    drawn = browser.run("({...document.body.dataset})")
    assert drawn.get("done", "0") == drawn["charts"] == ("2" if name == "runs" else "0")
    assert drawn.get("err", "") == ""
    assert (browser.messages(), browser.requests()) == ([], [])
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.documentElement.scrollWidth") == width
