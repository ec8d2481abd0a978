"""The page of checks: every check stands on it with its outcome, and nothing on it but text is the data's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_checks
from chromium import BINARY, Chromium

from tracelake.reports.files import checks_file, href, job_file
from tracelake.reports.words import OUTCOMES

Write = Callable[[str], Path]
PAGES = ("all_hold", "much_fails", "hostile_checks", "unchecked")
needs_browser = pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not installed: pages were not opened")


def _section(html: str, anchor: str) -> str:
    return html.split(f'id="{anchor}"', 1)[1].split("</section>", 1)[0]


@pytest.mark.parametrize("name", PAGES)
def test_sections_and_links(page: Write, name: str) -> None:
    html = page(name).read_text("utf-8")
    ids = set(re.findall(r' id="([\w-]+)"', html))
    assert ids >= {"outcomes", "not-passed", "normalized", "aggregates", "aside", "definitions"}
    assert ids >= set(re.findall(r'href="#([\w-]+)"', html))
    assert len(html.encode()) < 1_000_000
    assert "vegaEmbed = vegaEmbed" not in html, "no chart, no library"
    elsewhere = {each.split("#")[0] for each in re.findall(r'href="(?!#)([^"]+)"', html)}
    jobs = [made().job.job_id for made in (sample_checks.all_hold, sample_checks.hostile)]
    assert elsewhere <= {href(file(job)) for job in jobs for file in (job_file, checks_file)}


def test_every_check_of_every_table_stands_with_its_outcome(page: Write) -> None:
    data, html = sample_checks.much_fails(), page("much_fails").read_text("utf-8")
    body = _section(html, "normalized") + _section(html, "aggregates")
    assert body.count("<details") == len({check.table_name for check in data.checks})
    shown = Counter(re.findall(r'<span class="pill \w+"><i class="\w*"></i>([\w ]+)</span>', body))
    assert shown == Counter(OUTCOMES[check.outcome][1] for check in data.checks)


def test_what_did_not_pass_comes_first_with_measure_limit_and_windows(page: Write) -> None:
    rows = _section(page("much_fails").read_text("utf-8"), "not-passed").split("<details")[0]
    found = [[re.sub("<[^>]+>", " ", cell).split() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
             for row in re.findall(r"<tr>(.*?)</tr>", rows)[1:]]  # fmt: skip
    by_check = {(row[0][-1], row[0][0]): [" ".join(cell) for cell in row[1:]] for row in found}
    assert by_check["normalized.kernels", "failing_rows"] == ["failed", "2.0 %", "≤ 1.0 %", "230", "2", "–"]
    assert by_check["normalized.kernels", "key"] == ["failed", "3", "≤ 0", "3", "2", "–"]
    assert by_check["normalized.launches", "zero_time"][0] == "warned"
    assert by_check["aggregates.step_ledger", "classes_sum_to_step"][0] == "raised"
    assert "long overflow" in by_check["aggregates.step_ledger", "classes_sum_to_step"][-1]
    assert len(found) == 6


@pytest.mark.parametrize(("name", "said"), [("much_fails", True), ("unchecked", True), ("all_hold", False)])
def test_a_job_that_may_not_be_published_says_so_on_top(page: Write, name: str, said: bool) -> None:
    top = page(name).read_text("utf-8").split('class="grid"')[0]
    assert ("<b>Not published:</b>" in top) is said
    assert ("may be published" in top) is not said


@pytest.mark.parametrize(("name", "said"), [("degraded", True), ("hostile", True), ("dlrm", False)])
def test_the_report_of_the_job_says_so_too_and_links_the_checks(page: Write, name: str, said: bool) -> None:
    html = page(name).read_text("utf-8")
    assert ("<b>Not published:</b>" in html.split('id="figures"')[0]) is said
    assert 'href="checks-' in _section(html, "quality")


def test_links_reach_files_of_any_job_name() -> None:
    assert (job_file("a/b c"), href(checks_file("a/b c"))) == ("job-a%2Fb%20c.html", "checks-a%252Fb%2520c.html")


@needs_browser
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_fits_and_complains_of_nothing(browser: Chromium, page: Write, name: str, width: int) -> None:
    browser.open(page(name), width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.messages() == []
    assert browser.requests() == []
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("document.querySelectorAll('img').length") == 0
