"""The timeline in a browser: wheel, drag and keys, selections and arrows, search, addresses, tracks, hostile names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sample_timeline
from chromium import BINARY, Chromium

pytestmark = pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not installed: pages were not opened")
Open = Callable[..., Chromium]
SETTLE = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
VIEW = "timeline.state.view"


def _event(kind: str, rank: int = 2, more: str = "true") -> str:
    """A number of an event of that kind in a process, where the expression holds of event e."""
    return (
        "(() => { const m = timeline.model; for (let e = 0; e < m.total; e++) { const t = m.tracks[m.lanes[m.lane[e]]"
        f".track]; if (t.id.startsWith('p{rank}.') && m.kinds[m.kind[m.name[e]]] === '{kind}' && ({more})) return e; }}"
        " return -1; })()"
    )


def _name(event: str) -> str:
    return f"timeline.model.names[timeline.model.name[{event}]][1]"


def _press(browser: Chromium, key: str, *, alt: bool = False, shift: bool = False) -> None:
    modifiers = alt + 8 * shift
    text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
    code = {"windowsVirtualKeyCode": 27} if key == "Escape" else {}  # by which a dialog knows it
    browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **text, **code)
    browser.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)
    browser.run(SETTLE)


def _mouse(browser: Chromium, kind: str, x: float, y: float, **more: Any) -> None:
    browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


def _click(browser: Chromium, x: float, y: float) -> None:
    for kind in ("mousePressed", "mouseReleased"):
        _mouse(browser, kind, x, y, button="left", clickCount=1, buttons=1 if kind == "mousePressed" else 0)
    browser.run(SETTLE)


def _drag(browser: Chromium, start: tuple[float, float], end: tuple[float, float]) -> None:
    _mouse(browser, "mousePressed", *start, button="left", buttons=1, clickCount=1)
    for share in (0.3, 0.6, 1.0):
        at = [a + (b - a) * share for a, b in zip(start, end, strict=True)]
        _mouse(browser, "mouseMoved", at[0], at[1], button="left", buttons=1)
    _mouse(browser, "mouseReleased", *end, button="left", clickCount=1)
    browser.run(SETTLE)


def _canvas(browser: Chromium) -> dict[str, float]:
    found = browser.run("(({x, y, width, height}) => ({x, y, width, height}))("
                        "document.querySelector('[data-tl=body]').getBoundingClientRect())")  # fmt: skip
    return dict(found)


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", ["rows", "merged", "hostile", "bare"])
def test_it_opens_alone_and_fits(opened: Open, name: str, width: int) -> None:
    browser = opened(name, width)
    assert browser.messages() == []
    assert browser.requests() == []
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert not [e for e in browser.events if e.get("method") == "Page.javascriptDialogOpening"]


def test_wheel_zooms_about_the_pointer_and_drag_pans(opened: Open) -> None:
    browser = opened("rows")
    box = _canvas(browser)
    x, y = box["x"] + box["width"] * 0.25, box["y"] + 60
    before = browser.run(VIEW)
    at = before["from"] + (before["to"] - before["from"]) * 0.25
    _mouse(browser, "mouseWheel", x, y, deltaX=0, deltaY=-400)
    browser.run(SETTLE)
    after = browser.run(VIEW)
    span = after["to"] - after["from"]
    assert span == pytest.approx((before["to"] - before["from"]) * 0.449, rel=0.01)
    assert after["from"] + span * 0.25 == pytest.approx(at, abs=span * 0.002)
    _drag(browser, (x + 200, y), (x, y))
    moved = browser.run(VIEW)
    assert moved["from"] - after["from"] == pytest.approx(span * 200 / box["width"], rel=0.02)
    assert moved["to"] - moved["from"] == pytest.approx(span)


def test_keys_zoom_pan_fit_and_help(opened: Open) -> None:
    browser = opened("rows")
    whole = browser.run(VIEW)
    _press(browser, "w")
    zoomed = browser.run(VIEW)
    assert zoomed["to"] - zoomed["from"] == pytest.approx(0.8 * (whole["to"] - whole["from"]))
    _press(browser, "d")
    assert browser.run(VIEW)["from"] > zoomed["from"]
    _press(browser, "a")
    assert browser.run(VIEW)["from"] == pytest.approx(zoomed["from"], abs=1)
    _press(browser, "s")
    browser.run("document.querySelector('[data-tl=body]').focus()")
    for key in ("ArrowUp", "ArrowRight", "ArrowLeft", "ArrowDown"):
        _press(browser, key)
    assert browser.run(VIEW)["to"] - browser.run(VIEW)["from"] == pytest.approx(whole["to"] - whole["from"], rel=0.01)
    browser.run(f"timeline.select({_event('communication')})")
    _press(browser, "f")
    view, start = browser.run(VIEW), browser.run("timeline.model.start[timeline.state.selected]")
    assert view["from"] < start < view["to"] and view["to"] - view["from"] < 4_000_000
    _press(browser, "?")
    assert browser.run("document.querySelector('[data-tl=help]').open") is True
    _press(browser, "Escape")
    assert browser.run("document.querySelector('[data-tl=help]').open") is False
    assert browser.messages() == []


def test_a_launch_points_to_what_it_started_and_back(opened: Open) -> None:
    browser = opened("rows")
    kernel = browser.run(_event("communication"))
    browser.run(f"timeline.select({kernel}, true)")
    (arrow,) = browser.run(f"timeline.arrowsOf(timeline.model, {kernel})")
    launch = arrow[0]
    assert browser.run(_name(str(launch))) == "cudaLaunchKernel"
    assert browser.run(f"timeline.arrowsOf(timeline.model, {launch})") == [[launch, kernel]]
    # The rows say which launch that is: the last before it on the thread of the backward pass.
    rows = sample_timeline.rows()
    (row, *_) = [e for e in rows.events if e.kind == "communication" and e.source_id == "s2"]
    (mate,) = [e for e in rows.events if e.kind == "launch" and e.source_id == "s2" and e.launch_id == row.launch_id]
    assert browser.run(f"timeline.model.start[{launch}]") == mate.start_ns - rows.window.start_ns
    assert browser.run(f"timeline.model.start[{kernel}]") == row.start_ns - rows.window.start_ns
    # Both ends of the arrow are in sight, each in its own row.
    ends = browser.run(f"[{launch}, {kernel}].map((e) => timeline.placeOf(timeline.state, e).y)")
    assert ends[0] > ends[1]


def test_panes_tell_the_selection_and_its_connections(opened: Open) -> None:
    browser = opened("rows")
    browser.run(f"timeline.select({_event('communication')}, true)")
    told = browser.run("document.querySelector('[data-tl=selection]').innerText")
    for words in ("communication kernel", "ncclDevKernel_AllReduce", "stream 20, GPU 0, rank 2", "UTC", "Launch delay"):
        assert words in told
    relations = browser.run(
        "[...document.querySelectorAll('[data-tl=connections] tbody tr')].map(r => r.cells[0].innerText)"
    )
    assert relations == ["launched by", "inside", "same collective", "same collective", "same collective"]
    browser.run("document.querySelector('[data-tl=connections] tbody button').click()")
    browser.run(SETTLE)
    chosen = browser.run("timeline.state.selected")
    assert browser.run(_name(str(chosen))) == "cudaLaunchKernel"
    view, start = browser.run(VIEW), browser.run(f"timeline.model.start[{chosen}]")
    assert start == pytest.approx((view["from"] + view["to"]) / 2, abs=(view["to"] - view["from"]) * 0.05)
    told = browser.run("document.querySelector('[data-tl=connections]').innerText")
    assert "started" in told and "inside" in told
    browser.run(f"timeline.select({_event('annotation', more='m.names[m.name[e]][1] === ' + repr('forward'))})")
    told = " ".join(browser.run("document.querySelector('[data-tl=connections]').innerText").split())
    assert "inside step 41" in told and "contains layer_0" in told
    browser.run(f"timeline.select({_event('step')})")
    assert browser.run("document.querySelectorAll('[data-tl=connections] tbody tr').length") == 40
    assert "More than 40" in browser.run("document.querySelector('[data-tl=connections]').innerText")


def test_a_click_selects_what_is_there(opened: Open) -> None:
    browser = opened("rows")
    kernel = browser.run(_event("communication"))
    browser.run(f"timeline.select({kernel}, true)")
    browser.run(SETTLE)
    box, at = _canvas(browser), browser.run(f"timeline.placeOf(timeline.state, {kernel})")
    browser.run("timeline.select(-1)")
    _click(browser, box["x"] + (at["x0"] + at["x1"]) / 2, box["y"] + at["y"] + at["height"] / 2)
    assert browser.run("timeline.state.selected") == kernel
    _press(browser, ".")
    assert browser.run("timeline.state.selected") == kernel + 1
    _press(browser, ",")
    _press(browser, "Escape")
    assert browser.run("timeline.state.selected") == -1


def test_events_are_reached_without_a_pointer(opened: Open) -> None:
    browser = opened("rows")
    browser.run("document.querySelector('[data-track=\"p2.d0.s7\"]').focus()")
    _press(browser, ".")
    track = "timeline.model.tracks[timeline.model.lanes[timeline.model.lane[timeline.state.selected]].track].id"
    assert browser.run(track) == "p2.d0.s7"
    first = browser.run("timeline.state.selected")
    _press(browser, ".")
    assert browser.run("timeline.state.selected") == first + 1
    browser.run("document.querySelector('[data-tl=connections] tbody button').focus()")
    _press(browser, "Enter")
    assert browser.run(track).startswith("p2.t")


def test_a_block_of_merged_events_says_what_it_is(opened: Open) -> None:
    browser = opened("merged")
    row = browser.run("timeline.state.rows.find((r) => r.track.id === 'p2.d0.s7').y - timeline.state.scroll")
    box, x = _canvas(browser), browser.run("timeline.toX(timeline.state, 700_000)")
    _mouse(browser, "mouseMoved", box["x"] + x, box["y"] + row + 10)
    tip = browser.run("document.querySelector('.tip').innerText")
    assert tip.split("\n") == ["900 short events, merged", "busy 6\u00a0µs of 200\u00a0µs"]


def test_search_goes_through_what_it_finds(opened: Open) -> None:
    browser = opened("rows")
    _press(browser, "/")
    assert browser.run("document.activeElement.dataset.tl") == "find"
    browser.call("Input.insertText", text="flash_FWD")
    expected = sum("flash_fwd" in e.name for e in sample_timeline.rows().events)
    assert browser.run("document.querySelector('[data-tl=count]').value") == f"{expected} found"
    starts = []
    for _ in range(3):
        _press(browser, "Enter")
        assert "flash_fwd" in browser.run(_name("timeline.state.selected"))
        starts.append(browser.run("timeline.model.start[timeline.state.selected]"))
    assert starts == sorted(starts) and len(set(starts)) == 3
    _press(browser, "Enter", shift=True)
    assert browser.run("timeline.model.start[timeline.state.selected]") == starts[1]
    assert browser.run("document.querySelector('[data-tl=count]').value") == f"2 of {expected}"


def test_an_address_brings_back_view_and_selection(opened: Open) -> None:
    browser = opened("rows")
    browser.run(f"timeline.select({_event('communication')}, true)")
    wanted = browser.run(f"[timeline.toHash(timeline.model, {VIEW}, timeline.state.selected), timeline.state.selected]")
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert browser.run("location.hash") == wanted[0]
    again = opened("rows", address=wanted[0])
    assert again.run("timeline.state.selected") == wanted[1]
    assert again.run(f"timeline.toHash(timeline.model, {VIEW}, timeline.state.selected)") == wanted[0]
    for bad in ("#t=5..1&sel=nowhere", "#sel=%00/9@x", "#t=a..b"):
        assert opened("rows", address=bad).run("timeline.state.selected") == -1
        assert again.messages() == []


def test_tracks_close_open_and_move(opened: Open) -> None:
    browser = opened("rows")
    listed = "[...document.querySelectorAll('[role=treeitem]')].map((i) => i.dataset.track)"
    rows = browser.run(listed)
    assert "p2.d0.s7" in rows and "p0.d0" not in rows, "the slowest rank is open, the others are not"
    browser.run("document.querySelector('[data-track=\"p2.d0\"]').focus()")
    box = browser.run(
        "(({x, y}) => ({x, y}))(document.querySelector('[data-track=\"p2.d0\"]').getBoundingClientRect())"
    )
    _click(browser, box["x"] + 60, box["y"] + 8)
    assert "p2.d0.s7" not in browser.run(listed)
    _press(browser, "ArrowRight")
    assert "p2.d0.s7" in browser.run(listed)
    _press(browser, "ArrowDown")
    assert browser.run("document.activeElement.dataset.track") == "p2.d0.s7"
    _press(browser, "ArrowDown", alt=True)
    order = browser.run(listed)
    assert order.index("p2.d0.s20") < order.index("p2.d0.s7") < order.index("p2.d0.s24")
    assert browser.run("document.activeElement.dataset.track") == "p2.d0.s7"
    places = [browser.run(f"(({{x, y, height}}) => [x + 50, y + height / 2])("
                          f"document.querySelector('[data-track=\"{t}\"]').getBoundingClientRect())")
              for t in ("p2.d0.s24", "p2.d0.s20")]  # fmt: skip
    _drag(browser, tuple(places[0]), (places[1][0], places[1][1] - 6))
    order = browser.run(listed)
    assert order.index("p2.d0.s24") < order.index("p2.d0.s20")
    assert browser.messages() == []


def test_a_closed_track_still_holds_its_end_of_an_arrow(opened: Open) -> None:
    browser = opened("rows")
    browser.run(f"timeline.select({_event('communication')})")
    _ = [browser.run(f"timeline.state.open.delete('{t}')") for t in ("p2.d0",)]
    browser.run("timeline.select(timeline.state.selected)")
    place = browser.run("timeline.placeOf(timeline.state, timeline.state.selected)")
    row = browser.run("timeline.state.rows.find((r) => r.track.id === 'p2.d0').y - timeline.state.scroll")
    assert place["y"] == pytest.approx(row + 2)


def test_the_step_in_the_middle_is_the_one_named(opened: Open) -> None:
    browser = opened("rows")
    chosen = "document.querySelector('[data-tl=step]').selectedOptions[0]?.textContent"
    assert browser.run(chosen) == "▲ step 41, slow"
    browser.run("timeline.look({from: 23200000, to: 23900000})")
    assert browser.run(chosen) is None
    browser.run("document.querySelector('[data-tl=next]').click()")
    assert browser.run(chosen) == "▲ step 41, slow"


def test_both_themes_draw_their_own_colours(opened: Open) -> None:
    pixel = "[...document.querySelector('[data-tl=body]').getContext('2d').getImageData(2, 2, 1, 1).data].slice(0, 3)"
    assert opened("rows").run(pixel) == [255, 255, 255]
    browser = opened("rows", dark=True)
    assert browser.run(pixel) == [20, 26, 33]
    browser.run("document.querySelector('[data-act=theme]').click()")
    browser.run(SETTLE)
    assert browser.run(pixel) == [255, 255, 255]
    browser.run("localStorage.clear()")


def test_hostile_names_stay_text(opened: Open) -> None:
    browser = opened("hostile")
    browser.run(
        f"timeline.select({_event('compute', more='m.names[m.name[e]][1].includes(' + repr('<img') + ')')}, true)"
    )
    browser.run(SETTLE)
    told = browser.run("document.querySelector('[data-tl=selection] dd').textContent")
    assert told == "</script><img src=x onerror=alert(1)>\\u202e'\"&"
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.scripts.length") == 3
    assert browser.messages() == []


def test_what_is_merged_or_missing_is_said(opened: Open) -> None:
    browser = opened("merged")
    banner = browser.run("document.querySelector('.banner').innerText")
    assert "90\u202f000\u00a0short events of" in banner and "4 of 64 processes are shown" in banner
    browser = opened("bare")
    assert "degraded" in browser.run("document.querySelector('.banner').innerText")
    tracks = browser.run("timeline.model.tracks.filter((t) => t.reason).map((t) => [t.kind, t.note])")
    assert tracks == [
        ["counter", "not sampled"],
        ["sum", "no_gpu_activity_captured"],
        ["device", "no_gpu_activity_captured"],
    ]
    assert browser.run("document.querySelector('[data-tl=next]').hidden") is True


def test_shares_and_columns_are_those_of_the_events(opened: Open) -> None:
    """A pyramid may merge what fits in a pixel, never lose or double it."""
    browser = opened("rows")
    sums = browser.run("""(() => {
      const count = 5000, at = Float64Array.from({length: count}, (_, i) => i * 10);
      const end = at.map((s, i) => s + 1 + (i * 7) % 9), kind = new Uint8Array(count);
      const lane = timeline.makeLane(at, end, kind), busy = end.reduce((sum, e, i) => sum + e - at[i], 0);
      return [1, 7, 100, 1000, 20000].map((columns) => {
        const view = {from: 0, to: count * 10};
        const found = timeline.columnsOf(columns);
        timeline.paint(lane, view, found, Infinity);
        return found.cover.reduce((a, b) => a + b, 0) / columns * view.to / busy;
      });
    })()""")
    assert sums == pytest.approx([1.0] * 5, rel=1e-4)
    merged = browser.run(
        "timeline.union([[Float64Array.of(0, 10, 30), Float64Array.of(5, 20, 40)],"
        " [Float64Array.of(3, 19), Float64Array.of(8, 25)]]).map((a) => [...a])"
    )
    assert merged[:2] == [[0, 10, 30], [8, 25, 40]]


def test_durations_and_rulers_read_as_on_other_pages(opened: Open) -> None:
    browser = opened("rows")
    told = browser.run("[0, 640, 85000, 7624200, 999600, 1840000000].map(timeline.duration)")
    assert told == ["0\u00a0s", "640\u00a0ns", "85\u00a0µs", "7.62\u00a0ms", "1\u00a0ms", "1.84\u00a0s"]
    ruler = "(({found, text}) => found.map(text))(timeline.ticks({from: %s, to: %s}, 6))"
    assert browser.run(ruler % (-100, 900_000)) == [f"{n}\u00a0µs" for n in (0, 200, 400, 600, 800)]
    assert browser.run(ruler % (12_250_000, 12_252_000))[:2] == ["12.2500\u00a0ms", "12.2505\u00a0ms"]
