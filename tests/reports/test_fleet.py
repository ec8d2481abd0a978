"""The fleet page as text: hours that add up, links that arrive, names that stay text, and queries with bounds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sample_fleet

from tracelake.reports import read_fleet
from tracelake.reports.fleet_data import NoDayError, fleet_data

SECTIONS = ("figures", "hours", "goodput", "savings", "changes", "nodes", "groups", "trend", "definitions")
Write = Callable[[str], Path]


@pytest.mark.parametrize("name", ["fleet", "bare_fleet"])
def test_no_section_vanishes_and_every_link_arrives(page: Write, name: str) -> None:
    html = page(name).read_text("utf-8")
    ids = set(re.findall(r' id="([\w-]+)"', html))
    assert ids >= set(SECTIONS)
    assert ids >= set(re.findall(r'href="#([\w-]+)"', html))
    assert len(html.encode()) < 2_000_000


def test_the_waterfall_adds_up(page: Write) -> None:
    """Each bar begins where the next one ends, and the last is what was productive."""
    html = page("fleet").read_text("utf-8").partition('id="hours"')[2].partition("</section>")[0]
    bars = [(float(a), float(b)) for a, b in re.findall(r"margin-left:([\d.]+)%;width:([\d.]+)%", html)]
    (whole, *parts), total = bars, sum(sample_fleet.HOURS.values())
    assert whole == (0, 100)
    assert sum(width for _, width in parts) == pytest.approx(100, abs=0.1)
    ends = [start + width for start, width in parts]
    assert ends[0] == pytest.approx(100, abs=0.02)
    assert [start for start, _ in parts[:-1]] == pytest.approx(ends[1:], abs=0.02)
    assert parts[-1] == (0, pytest.approx(100 * sample_fleet.HOURS["productive"] / total, abs=0.01))


def test_figures_and_words(page: Write) -> None:
    html = page("fleet").read_text("utf-8")
    assert "Fleet, Saturday 28 November 2026" in html
    assert "<b>210 of 406 GPU-hours were productive.</b> The largest cause is exposed communication" in html
    assert "1\u00a0job is slower than the runs of their family" in html
    for words in ("REGRESSION", "IMPROVEMENT", "MIXED", "gpu-0413", 'href="job-llm-7b.html#findings"'):
        assert words in html


def test_goodput_of_the_fleet_and_its_lowest_jobs(page: Write) -> None:
    html = page("fleet").read_text("utf-8").partition('id="goodput"')[2].partition("</section>")[0]
    assert re.findall(r'<a class="fig"[^>]*>([^<]+)</a>', html) == ["72\u00a0%", "50\u00a0%"]
    assert 'href="job-llm-7b.html#goodput"' in html
    assert "78\u00a0%" in html and "55\u00a0%" in html, "of the lowest job"
    assert "initialization and warm-up, 10\u00a0%" in html, "what took most of the rest"
    assert "1\u00a0job without: <code>much_not_recorded</code>" in html
    assert "No job of this day has a goodput." in page("bare_fleet").read_text("utf-8")


def test_markup_in_names_is_text(page: Write) -> None:
    assert sample_fleet.HOSTILE not in page("fleet").read_text("utf-8")


def test_a_lake_without_device_time_is_one_clear_line() -> None:
    with pytest.raises(NoDayError, match="no device time in the lake; run the pipeline first"):
        fleet_data(lambda _: [])
    with pytest.raises(NoDayError, match="no device time on 2026-01-01"):
        fleet_data(lambda _: [], "2026-01-01")


def test_every_list_is_bounded() -> None:
    asked: list[str] = []

    def query(text: str) -> list[dict[str, Any]]:
        asked.append(text)
        return [{"job_count": 0, "node_count": 0, "found_count": 0}] if "found_count" in text else []

    for name, function in inspect.getmembers(read_fleet, inspect.isfunction):
        parameters = list(inspect.signature(function).parameters)
        if parameters[:2] == ["query", "day"]:
            asked.clear()
            function(query, "2026-11-28", *["project"] * (len(parameters) - 2))
            assert re.search(r"LIMIT \d+|found_count", asked[-1]), name
