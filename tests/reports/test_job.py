"""The page as text: built for every kind of job, small, strict and self-contained."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sample_ideal

from tracelake.reports.definitions import OF_A_JOB
from tracelake.reports.files import href, timeline_file
from tracelake.reports.job import job_page
from tracelake.reports.page import script_json
from tracelake.reports.panels import goodput, samples

SECTIONS = (
    "findings", "figures", "devices", "idle", "goodput", "activity", "utilization", "communication", "steps",
    "outliers", "ranks", "samples", "kernels", "precision", "memory", "launches", "annotations", "job", "changes",
    "quality", "definitions",
)  # fmt: skip
JOBS = (
    "dlrm", "ideal", "degraded", "hostile", "many_names", "clock_change", "few_steps", "many_devices",
)  # fmt: skip
Write = Callable[[str], Path]


def _charts(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', html, re.S)
    assert found

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    charts: dict[str, Any] = json.loads(found[1], parse_constant=refuse)
    return charts


@pytest.mark.parametrize(
    "name", ["dlrm", "ideal", "degraded", "hostile", "many_names", "clock_change", "few_steps", "many_devices"]
)
def test_no_section_vanishes_and_every_link_arrives(page: Write, name: str) -> None:
    html = page(name).read_text("utf-8")
    ids = set(re.findall(r' id="([\w-]+)"', html))
    assert ids >= set(SECTIONS)
    assert ids >= set(re.findall(r'href="#([\w-]+)"', html))
    body = html.split("<script", 1)[0]
    drawn = set(re.findall(r'<div class="chart" data-chart="([\w-]+)"', body))
    assert drawn == set(_charts(html))
    assert len(html.encode()) < 2_500_000


def test_a_timeline_that_was_made_is_linked() -> None:
    data = sample_ideal.ideal()
    assert 'href="timeline-llm%252F7.html">Timeline</a>' in job_page(
        data, made_ns=0, timeline=href(timeline_file("llm/7"))
    )
    assert ">Timeline</a>" not in job_page(data, made_ns=0)


def test_unknown_growth_of_memory_is_not_0_and_unmatched_collectives_are_in_no_sum(page: Write) -> None:
    data = sample_ideal.ideal()
    unknown = tuple(replace(row, memory_growth_bytes=None) for row in data.causes.device_samples)
    html = samples.panel(replace(data, causes=replace(data.causes, device_samples=unknown))).html()
    assert "0\u00a0B" not in html and html.count("–") == len(unknown)
    assert ", 8 of them matched across ranks: in those ranks wait" in page("dlrm").read_text("utf-8")


def test_a_page_has_one_policy_and_names_no_other_origin(page: Write) -> None:
    html = page("dlrm").read_text("utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy[1]
    assert "script-src" in policy[1]
    assert "'unsafe-inline'" not in policy[1].split("style-src")[0]
    own = re.sub(r'<script type="module">.*?</script>', "", html, flags=re.S)
    addresses = set(re.findall(r'(?:src|href)="(?!#|data:)([^"]+)"|url\((?!data:|#)([^)]+)\)', own))
    assert addresses == {("checks-dlrm.html", "")}, "beside its own sections a page links the job's other one only"
    assert html.count('<script type="module">') == 2, "libraries once per page, not per chart"


def test_ten_thousand_names_cost_a_few_hundred_kilobytes(page: Write) -> None:
    small, large = (page(n).stat().st_size for n in ("dlrm", "many_names"))
    assert large < 5_000_000
    assert large - small < 100 * 4_096


def test_an_unknown_number_is_a_word_and_a_code(page: Write) -> None:
    html = page("degraded").read_text("utf-8")
    assert 'role="note"' in html
    figures = html[html.index('id="figures"') : html.index('id="devices"')]
    assert figures.count("withheld") == 4
    assert figures.count("low_launch_coverage") == 4
    assert not re.search(r">0\u00a0%|nan|None", figures)


def test_parts_of_a_device_sum_to_its_window(page: Write) -> None:
    (values,) = _charts(page("dlrm").read_text("utf-8"))["devices"]["specs"][0]["datasets"].values()
    assert round(sum(v["v"] for v in values if v["y"] == "rank 1"), 6) == 19.901


def test_goodput_of_all_attempts_and_what_took_the_rest(page: Write) -> None:
    html = page("ideal").read_text("utf-8").partition('id="goodput"')[2].partition("</section>")[0]
    assert re.findall(r'<a class="fig"[^>]*>([^<]+)</a>', html)[:2] == ["78\u00a0%", "55\u00a0%"]
    shares = re.findall(r'<td class="num">([\d.]+)\u00a0%</td>', html)
    assert shares == ["75", "10", "2.0", "6.0", "3.0", "4.0"], "parts of the allocation; what is 0 has no row"
    assert "2\u00a0attempts seen, 1\u00a0restart" in html and "3\u00a0steps redone" in html
    dlrm = page("dlrm").read_text("utf-8").partition('id="goodput"')[2].partition("</section>")[0]
    assert "Goodput is unknown." in dlrm and "<code>no_allocation</code>" in dlrm


def test_pipeline_bubbles_are_a_key_figure_where_ranks_send(page: Write) -> None:
    html = page("ideal").read_text("utf-8")
    assert re.search(r'#def-pipeline-bubble"[^>]*>Pipeline bubbles</a></dt><dd class="v">6\.2', html)
    assert ">Pipeline bubbles</a></dt>" not in page("dlrm").read_text("utf-8")


def test_goodput_without_a_ratio_says_why() -> None:
    data = sample_ideal.ideal()
    assert data.goodput
    bare = replace(data.goodput, goodput_ratio=None, productive_ratio=None, reason="much_not_recorded")
    html = goodput.panel(replace(data, goodput=bare)).html()
    assert "<code>much_not_recorded</code>" in html and "inside steps that count" in html


def test_every_definition_is_used_or_listed(page: Write) -> None:
    html = page("ideal").read_text("utf-8")
    assert all(f'id="def-{key}"' in html for key in OF_A_JOB)


def test_script_data_is_strict() -> None:
    assert script_json({"a": "</script>"}) == '{"a":"\\u003c/script>"}'
    with pytest.raises(ValueError, match="JSON"):
        script_json({"a": float("nan")})


def test_inferred_steps_are_said_to_be() -> None:
    data = sample_ideal.ideal()
    assert "inferred from" not in job_page(data, made_ns=0)
    known = {"is_step_inferred": True, "step_period_launch_count": 1_478, "step_agreement_ratio": 0.973}
    html = job_page(replace(data, summary=replace(data.summary, **known)), made_ns=0).replace("\xa0", " ")
    assert "they are inferred from repeating launches: a period of 1\u202f478 kernel launches, agreement 97 %" in html
    assert "steps (inferred), longest" in html


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("no_period", "none could be inferred: the launches do not repeat evenly"),
        ("too_few_launches", "none could be inferred: too few launches"),
        ("no_launches", "none could be inferred: no launch is known to have started a kernel"),
        (None, "No step markers. Name steps"),
    ],
)
def test_it_is_said_why_there_are_no_steps(code: str | None, words: str) -> None:
    data = sample_ideal.ideal()
    without = replace(data.summary, step_count=0, step_median_ns=None, step_max_ns=None, no_steps_reason=code)
    html = job_page(replace(data, summary=without, step_groups=(), steps=(), steps_left_out=()), made_ns=0)
    assert words in html and f"<code>{code or 'no_steps'}</code>" in html
