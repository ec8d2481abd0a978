"""Pages opened in headless Chromium: charts are drawn, hostile names stay text, no zone and no network matters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sample_cases
from chromium import BINARY, Chromium

Write = Callable[[str], Path]
DRAWN = ("dlrm", "ideal", "degraded", "many_names", "few_steps", "many_devices")
pytestmark = pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not installed: pages were not opened")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", [*DRAWN, "fleet", "bare_fleet"])
def test_every_chart_is_drawn_and_the_page_fits(browser: Chromium, page: Write, name: str, width: int) -> None:
    browser.open(page(name), width)
    state = browser.run("({...document.body.dataset})")
    assert (
        state.get("done", "0") == state["charts"] == str(browser.run("document.querySelectorAll('.chart svg').length"))
    )
    assert state.get("err", "") == ""
    assert browser.messages() == []
    assert browser.requests() == []
    assert browser.run("document.documentElement.scrollWidth") == width


def test_every_choice_is_drawn(browser: Chromium, page: Write) -> None:
    browser.open(page("ideal"))
    choose = """(async () => {
      let n = 0;
      for (const select of document.querySelectorAll("select[data-for]"))
        for (const option of select.querySelectorAll("option:not(:disabled)")) {
          select.value = option.value; select.onchange(); n++;
          await new Promise((r) => setTimeout(r, 300));
        }
      return n; })()"""
    assert browser.run(choose) > 8
    assert browser.run("document.body.dataset.err") == ""
    assert browser.messages() == []
    rows = "[...document.querySelectorAll('#kernels tbody tr')].filter(r => !r.hidden).length"
    assert browser.run(rows) == 16
    browser.run("(() => { const s = document.querySelector('[data-top]'); s.value = '5'; s.onchange(); })()")
    assert browser.run(rows) == 6


@pytest.mark.parametrize("width", [1440, 390])
def test_markup_in_names_is_inert(browser: Chromium, page: Write, width: int) -> None:
    browser.open(page("hostile"), width)
    state = browser.run("({...document.body.dataset})")
    assert state["done"] == state["charts"]
    assert state["err"] == ""
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.scripts.length") == 3
    assert not [e for e in browser.events if e.get("method") == "Page.javascriptDialogOpening"]
    assert browser.messages() == []
    assert browser.run("document.documentElement.scrollWidth") == width
    names = browser.run(
        "[...document.querySelectorAll('#kernels tbody tr')].slice(0, 6)"
        ".map(r => (r.querySelector('.full') ?? r.querySelector('.mid')).textContent)"
    )
    assert len(set(names)) == 6, "two long names that differ in one character stay two rows"
    assert names[0] == sample_cases.HOSTILE[0]
    assert names[4].startswith("k" * 1_000)
    assert browser.run("[...document.querySelectorAll('#kernels details')].length") > 0


def test_no_policy_is_needed_to_stop_an_injected_script(browser: Chromium, page: Write) -> None:
    """And were a name to become markup after all, the policy would still refuse to run it."""
    browser.open(page("dlrm"))
    browser.run("document.body.insertAdjacentHTML('beforeend', '<b onclick=\"window.ran=1\">x</b>')")
    browser.run("document.querySelector('b[onclick]').click()")
    assert browser.run("window.ran") is None
    assert any("Content Security Policy" in m for m in browser.messages())


def test_time_axes_do_not_follow_the_viewer(page: Write) -> None:
    file, seen = page("clock_change"), {}
    for zone in ("UTC", "America/New_York", "Asia/Kolkata"):
        with Chromium(zone) as browser:
            browser.open(file)
            assert browser.requests() == []
            assert (
                browser.run("Intl.DateTimeFormat().resolvedOptions().timeZone").replace("Calcutta", "Kolkata") == zone
            )
            labels = "[...document.querySelectorAll('.chart svg text')].map(t => t.textContent)"
            charts = browser.run("document.body.dataset.charts")
            seen[zone] = (browser.run("document.body.dataset.done"), charts, browser.run(labels))
    assert len({str(v) for v in seen.values()}) == 1
    done, charts, labels = seen["UTC"]
    assert done == charts != "0"
    assert any("since 2024-03-10" in x and "UTC" in x for x in labels)
    assert "60" in labels
    assert not {"3600", "70"} & set(labels)


def test_keyboard_and_theme(browser: Chromium, page: Write) -> None:
    browser.open(page("dlrm"), dark=True)
    dark = browser.run("getComputedStyle(document.body).backgroundColor")
    browser.run("document.querySelector('[data-act=theme]').click()")
    assert browser.run("getComputedStyle(document.body).backgroundColor") != dark
    browser.run("document.querySelector('a.def').click()")
    assert browser.run("document.querySelector('.tip').hidden") is False
    assert "window" in browser.run("document.querySelector('.tip').textContent")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    assert browser.run("document.querySelector('.tip').hidden") is True
    browser.run("localStorage.clear()")
