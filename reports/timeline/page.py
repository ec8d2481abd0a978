"""The timeline page: one file with its events inside, and the script that draws them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from tracelake.reports import format as f
from tracelake.reports.files import href, job_file
from tracelake.reports.html import pairs, text
from tracelake.reports.page import Page, foot
from tracelake.reports.timeline.data import Rows, Source
from tracelake.reports.timeline.encode import payload
from tracelake.reports.timeline.tree import tracks

_SCRIPTS = ("model", "query", "layout", "draw", "scene", "names", "panes", "timeline", "input")
_LEGEND = (
    ("compute", "--compute", ""),
    ("communication", "--exposed-comm", "under"),
    ("memory", "--exposed-mem", "low"),
    ("launch", "--runtime", ""),
    ("sync", "--sync", "low"),
)
_KEYS = (
    ("w, s, wheel, ↑ ↓", "zoom in and out; the wheel about the pointer"),
    ("a, d, drag, ← →", "pan; also the wheel with Shift, or sideways"),
    ("f", "fit the selection, or the whole window"),
    ("0", "the whole window"),
    ("click, Enter", "select an event; open or close a track by its name"),
    (", and .", "the event before and after on the same track"),
    ("/", "search by name; Enter for the next, Shift and Enter for the one before"),
    ("Alt and ↑ ↓", "move a track among its neighbours; dragging its name does too"),
    ("Esc", "select nothing"),
    ("?", "this help"),
)


def timeline_page(rows: Rows, *, made_ns: int) -> str:
    """The page as HTML. made_ns is the time that its foot states."""
    window = rows.window
    style = resources.files(__package__).joinpath("timeline.css").read_text("utf-8")
    data = payload(rows, tracks(rows))
    body = (
        f'<style>{style}</style><div class="tl"><h1>Timeline of {text(window.job_id)}, {text(window.title)}</h1>'
        f"{_bar(window.job_id)}<div>{_banner(rows)}</div>{_head(rows)}{_TRACKS}{_panes(rows)}"
        f"{foot(*_facts(rows), f'made {f.utc(made_ns)}')}</div>{_help()}"
        f'<script type="application/octet-stream" data-tl="data">{data}</script>'
    )
    crumbs = ("Jobs", *((window.project,) if window.project else ()), window.job_id, f"timeline of {window.title}")
    scripts = tuple(f"timeline/{name}.js" for name in _SCRIPTS)
    return Page(f"{window.job_id}, timeline", crumbs, (), body, {}, scripts).html()


def _facts(rows: Rows) -> list[str]:
    counts = f"{f.plural(rows.event_count, 'event')} of {f.plural(len(rows.sources), 'process', 'processes')}"
    return [counts, "All times UTC.", *_clocks(rows.sources)]


def _clocks(sources: Sequence[Source]) -> list[str]:
    """How times of several nodes may be compared."""
    if len({s.node_id or s.source_id for s in sources}) < 2:
        return []
    if any(s.ahead_ns is None for s in sources):
        return ["Clocks of the nodes could not be aligned: compare times of different nodes with care."]
    most = max(abs(s.ahead_ns or 0) for s in sources)
    return [f"Clocks of the nodes are aligned by the ends of collectives; the largest offset was {f.duration(most)}."]


def _bar(job_id: str) -> str:
    parts = "".join(
        f'<li><span class="sw {shape}" style="--sw:var({token});background:var({token})"></span>{words}</li>'
        for words, token, shape in _LEGEND
    )
    return (
        '<div class="tl-bar" role="toolbar" aria-label="Timeline"><label class="muted">step '
        '<select data-tl="step"></select></label>'
        '<input data-tl="find" type="search" placeholder="Search events  /" aria-label="Search events by name">'
        '<output data-tl="count" aria-live="polite"></output>'
        f"{_button('previous', 'Previous outlier')}{_button('next', 'Next outlier')}"
        f"{_button('out', '−', 'Zoom out')}{_button('in', '+', 'Zoom in')}"
        f"{_button('fit', 'Fit', 'Fit the selection, or the whole window')}"
        f'<ul class="lg" aria-label="What the colours and shapes are">{parts}</ul><span class="sp"></span>'
        '<span class="muted tl-keys"><kbd>w</kbd> <kbd>s</kbd> zoom &nbsp;<kbd>a</kbd> <kbd>d</kbd> pan &nbsp;'
        f"<kbd>f</kbd> fit selection</span>{_button('help-open', '?', 'Help')}"
        f'<a class="btn" href="{href(job_file(job_id))}">Report</a></div>'
    )


def _button(name: str, words: str, title: str = "") -> str:
    said = f' aria-label="{title}" title="{title}"' if title else ""
    return f'<button class="btn" type="button" data-tl="{name}"{said}>{words}</button>'


def _banner(rows: Rows) -> str:
    """What the page leaves out, said on top of it."""
    left = []
    merged = sum(m.event_count for m in rows.merged)
    if merged:
        left.append(
            f"<b>{f.plural(merged, 'short event')} of {f.count(rows.event_count)} are merged.</b> The page keeps the"
            " longest of each track; low pale blocks stand for the others, as high as they were busy. Search, arrows"
            " and connections know the kept ones only."
        )
    if rows.source_count > len(rows.sources):
        left.append(f"<b>{f.count(len(rows.sources))} of {f.count(rows.source_count)} processes are shown.</b>")
    bad = [s for s in rows.sources if s.status not in ("complete", "running")]
    if bad:
        left.append(f"<b>Capture not whole.</b> {', '.join(map(_status, bad[:4]))}{', …' if len(bad) > 4 else ''}.")
    return f'<div class="banner" role="note">{" ".join(left)}</div>' if left else ""


def _status(source: Source) -> str:
    who = f"rank {source.rank}" if source.rank is not None else source.node_id or "one process"
    return f"{text(who)} is {text(source.status)}"


def _head(rows: Rows) -> str:
    window = rows.window
    length = f.duration(window.end_ns - window.start_ns)
    return (
        '<div class="tl-head"><div><div class="tl-whole"><b>Whole window</b>'
        f'<span>mean GPU active, {length}</span><span data-tl="span"></span></div>'
        f'<div class="tl-zero" title="{f.utc(window.start_ns, digits=9)} is 0">{f.utc(window.start_ns, digits=3)[11:]}'
        ' +</div></div><canvas data-tl="head" role="img" aria-label="GPU activity and steps of the whole window; '
        'press to bring the view there"></canvas></div>'
    )


_TRACKS = (
    '<div class="tl-scroll" data-tl="scroll"><div data-tl="names" role="tree" aria-label="Tracks"></div>'
    '<div data-tl="canvas-room"><canvas data-tl="body" tabindex="0" role="application" aria-label="Timeline. Arrow '
    "keys pan and zoom, comma and full stop go from event to event; the panes below list the selection and its "
    'connections. Question mark for help."></canvas></div></div>'
)


def _panes(rows: Rows) -> str:
    table = "".join(
        f'<th scope="col"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{words}</th>'
        for words, kind in (("Relation", ""), ("Event", ""), ("Track", "x"), ("Start", "num x"), ("Duration", "num"))
    )
    return (
        '<div class="tl-panes"><section data-tl="selection" aria-live="polite" aria-labelledby="tl-sel">'
        '<h2 id="tl-sel">Current selection <span></span></h2>'
        f"<div><p>Nothing: click an event, or search for one. This page shows:</p>{pairs(_summary(rows))}</div>"
        '<dl class="kv" hidden></dl></section>'
        '<section data-tl="connections" aria-labelledby="tl-con"><h2 id="tl-con">Connections '
        "<span>choose one to centre the view on it</span></h2><p></p>"
        f"<table hidden><thead><tr>{table}</tr></thead><tbody></tbody></table></section></div>"
    )


def _summary(rows: Rows) -> list[tuple[str, str]]:
    window = rows.window
    facts = [("Window", text(window.title)), ("Length", f.duration(window.end_ns - window.start_ns))]
    facts.append(("Start", f.utc(window.start_ns, digits=3)))
    facts.append(("Events", f.count(rows.event_count)))
    unusual = [(m.kind.replace("_", "-"), ": ".join(filter(None, (m.label, m.say)))) for m in rows.marks if m.kind]
    facts += [(f"▲ {text(kind)}", text(said)) for kind, said in unusual[:3]]
    return [*facts, *([("Why", text(window.why))] if window.why else [])]


def _help() -> str:
    keys = "".join(f"<dt><kbd>{text(keys)}</kbd></dt><dd>{text(what)}</dd>" for keys, what in _KEYS)
    return (
        f'<dialog class="tl-help" data-tl="help" aria-labelledby="tl-help-h"><h2 id="tl-help-h">Keys</h2>'
        f'<dl class="kv">{keys}</dl><p>The address keeps the view and the selection: copy it to share them.</p>'
        f"{_button('help-close', 'Close')}</dialog>"
    )
