"""Pieces of HTML. Text that comes from the data enters a page through text() or name() only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tracelake.reports.definitions import DEFINITIONS
from tracelake.reports.names import bounded, label, visible


def text(raw: object) -> str:
    return escape(visible(str(raw)))


def name(full: str, short: str | None = None, tail: int = 14) -> str:
    """A name of the program: shortened in the middle, opened on click or Enter. The full name stands here once."""
    shown = label(short or full)
    head, end = (shown[:-tail], shown[-tail:]) if len(shown) > 2 * tail else (shown, "")
    brief = f'<span class="a">{escape(head)}</span><span class="z">{escape(end)}</span>'
    kept = text(bounded(full))
    if shown == full and not end:
        return f'<span class="mid mono">{brief}</span>'
    return (
        f'<details class="name mono"><summary class="mid">{brief}</summary><span class="full">{kept}</span></details>'
    )


def term(words: str, definition: str) -> str:
    """Words that link to their definition. The words are ours, not data."""
    title = DEFINITIONS[definition].title
    return f'<a class="def" href="#def-{definition}" title="Definition: {escape(title)}">{words}</a>'


def figure(value: str, definition: str) -> str:
    """A number inside a sentence."""
    return f'<a class="fig" href="#def-{definition}">{escape(value)}</a>'


def unknown(code: str | None, word: str = "unknown") -> str:
    """What stands where a number is missing: the word and the reason code."""
    return f'<span class="muted">{word}</span>' + (f" <code>{text(code)}</code>" if code else "")


def pill(kind: str, words: str) -> str:
    shape = {"warn": "tri", "bad": "tri", "off": "sq"}.get(kind, "")
    return f'<span class="pill {kind}"><i class="{shape}"></i>{text(words)}</span>'


def state(title: str, words: str, code: str | None = None, *, hatched: bool = False) -> str:
    """A panel's content where it has no numbers: nothing recorded, withheld, not applicable or unknown."""
    kind = "empty unknown" if hatched else "empty"
    return (
        f'<div class="{kind}"><b>{title}</b><span>{words}</span>'
        + (f"<code>{text(code)}</code>" if code else "")
        + "</div>"
    )


def swatch(token: str) -> str:
    return f'<span class="sw" style="background:var({token})"></span>'


def legend(items: Iterable[tuple[str, str, str]]) -> str:
    """Colour token, words (HTML) and number of each part, in stack order."""
    parts = (f"<li>{swatch(t)}{words}{f' <b>{escape(n)}</b>' if n else ''}</li>" for t, words, n in items)
    return f'<ul class="lg">{"".join(parts)}</ul>'


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "", row_attributes: Sequence[str] = ()
) -> str:
    """A table. A head starting with '#' is of a number column, with '.' of one that narrow screens drop."""
    classes = [" ".join(c for c, on in (("num", "#" in h[:2]), ("x", "." in h[:2])) if on) for h in head]
    cells = [f' class="{c}"' if c else "" for c in classes]
    th = "".join(f'<th scope="col"{c}>{h.lstrip("#.")}</th>' for c, h in zip(cells, head, strict=True))
    lines = []
    for i, row in enumerate(rows):
        attributes = f" {row_attributes[i]}" if row_attributes else ""
        lines.append(
            f"<tr{attributes}>" + "".join(f"<td{c}>{v}</td>" for c, v in zip(cells, row, strict=True)) + "</tr>"
        )
    body = "".join(lines)
    return f'<div class="tw"><table class="{kind}"><thead><tr>{th}</tr></thead><tbody>{body}</tbody></table></div>'


def bar(share: float, token: str = "--compute") -> str:
    """A bar in a table cell; its row says what and how much."""
    return f'<div class="bar" style="width:{100 * min(1.0, share):.2f}%;background:var({token})"></div>'


def data_table(head: Sequence[str], rows: Iterable[Sequence[str]], title: str = "Data as a table") -> str:
    """A chart's data, for those who would rather read it."""
    return f'<details class="data"><summary>{title}</summary>{table(head, rows)}</details>'


def pairs(items: Iterable[tuple[str, str]]) -> str:
    return '<dl class="kv">' + "".join(f"<dt>{k}</dt><dd>{v}</dd>" for k, v in items) + "</dl>"
