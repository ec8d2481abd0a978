"""The frame of a page: one file, no other origin, the libraries once, a policy that lets only its own scripts run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from importlib.metadata import PackageNotFoundError, version

from tracelake.reports import assets
from tracelake.reports.charts import Chart
from tracelake.reports.definitions import DEFINITIONS, OF_A_JOB
from tracelake.reports.html import text

_HERE = resources.files("tracelake.reports")
"""Inside the wheel too, as spark-submit brings it."""
_LOGO = (
    '<svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true"><rect width="22" height="22" rx="5" '
    'fill="var(--accent)"/><g fill="var(--surface)"><rect x="4" y="5.2" width="9" height="2.6" rx="1"/><rect x="8" '
    'y="9.7" width="10" height="2.6" rx="1" opacity=".75"/><path d="M4 15.6q1.75-1.5 3.5 0t3.5 0 3.5 0 3.5 0" '
    'fill="none" stroke="var(--surface)" stroke-width="1.8" stroke-linecap="round"/></g></svg>'
)
_HATCH = (
    '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs><pattern id="hatch" width="5" '
    'height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="5" height="5" '
    'fill="var(--surface)"/><rect width="1.2" height="5" fill="var(--hatch)"/></pattern></defs></svg>'
)
_THEME = (
    '<button class="btn" type="button" data-act="theme" aria-label="Switch between light and dark">'
    '<svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true"><circle cx="7" cy="7" r="5.5" fill="none" '
    'stroke="currentColor" stroke-width="1.4"/><path d="M7 1.5a5.5 5.5 0 0 1 0 11z" fill="currentColor"/></svg>'
    "</button>"
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One section: what it shows, the sentence that states its result, and its charts by id."""

    id: str
    title: str
    say: str
    body: str
    width: str = ""
    controls: str = ""
    foot: str = ""
    charts: dict[str, Chart] = field(default_factory=dict)

    def html(self) -> str:
        say = f'<p class="say">{self.say}</p>' if self.say else ""
        foot = f'<p class="foot">{self.foot}</p>' if self.foot else ""
        return (
            f'<section class="panel {self.width}" id="{self.id}" aria-labelledby="{self.id}-h"><div class="ph">'
            f'<h2 id="{self.id}-h">{self.title}</h2><span class="sp"></span>{self.controls}</div>{say}{self.body}{foot}'
            "</section>"
        )


@dataclass(frozen=True, slots=True)
class Page:
    """A page before it is written: everything but data is HTML of our own."""

    title: str
    crumbs: Sequence[str]
    rail: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    body: str
    charts: dict[str, Chart]
    scripts: Sequence[str] = ()
    """Files with what this page does besides."""
    controls: str = ""
    """Links and buttons of this page, at its top."""

    def html(self) -> str:
        # One module: what a page does besides uses what every page has.
        own = "\n".join(_HERE.joinpath(name).read_text("utf-8") for name in ("page.js", *self.scripts))
        # A page without charts needs no libraries.
        scripts = [*([assets.vega()] if self.charts else []), own]
        policy = (
            f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src 'unsafe-inline'; "
            "font-src data:; base-uri 'none'; form-action 'none'"
        )
        # As modules, the libraries' hundreds of short names stay their own.
        modules = "".join(f'<script type="module">{script}</script>' for script in scripts)
        style = assets.fonts() + _HERE.joinpath("theme.css").read_text("utf-8")
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
            f"<title>{text(self.title)} · tracelake</title><style>{style}</style></head><body>"
            f'<a class="skip" href="#main">To the content</a>{_HATCH}{self._top()}'
            f'<div class="shell{"" if self.rail else " wide"}">{self._rail()}<main id="main">{self.body}</main></div>'
            f'<script type="application/json" id="charts">{script_json(self.charts)}</script>'
            f"{modules}</body></html>\n"
        )

    def _top(self) -> str:
        *above, last = self.crumbs
        crumbs = "".join(f'<span class="opt">{text(c)}</span><span class="opt">/</span>' for c in above)
        return (
            f'<header class="top"><span class="brand">{_LOGO}<span>tracelake</span></span><nav class="crumb" '
            f'aria-label="Breadcrumb">{crumbs}<b>{text(last)}</b></nav><span class="sp"></span>'
            f"{self.controls}{_THEME}</header>"
        )

    def _rail(self) -> str:
        groups = (
            f"<span>{group}</span>" + "".join(f'<a href="#{anchor}">{words}</a>' for anchor, words in links)
            for group, links in self.rail
        )
        return f'<nav class="rail" aria-label="Sections">{"".join(groups)}</nav>' if self.rail else ""


def script_json(value: object) -> str:
    """Strict JSON that can stand in a script element: no NaN, and no '<' to end it."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False, default=_plain).replace(
        "<", "\\u003c"
    )


def _plain(value: object) -> object:
    if isinstance(value, Chart):
        return {"specs": value.specs, **({"views": value.views} if value.views else {})}
    raise TypeError(f"{type(value).__name__} in chart data")


def _hash(script: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"


def definitions(keys: Iterable[str] = OF_A_JOB) -> Panel:
    """What the numbers mean: every label and figure of the page links here."""
    shown = ((key, DEFINITIONS[key]) for key in keys)
    entries = "".join(f'<div id="def-{key}"><dt>{d.title}</dt><dd>{text(d.text)}</dd></div>' for key, d in shown)
    return Panel("definitions", "Definitions", "", f'<dl class="defs">{entries}</dl>')


def foot(*facts: str) -> str:
    """The page's end: what made it, when the caller's facts say so."""
    try:
        program = version("tracelake")
    except PackageNotFoundError:  # run from a folder that was never installed
        program = "unknown version"
    parts = (f"tracelake {program}", *facts)
    return f'<footer class="endnote">{"".join(f"<span>{p}</span>" for p in parts)}</footer>'
