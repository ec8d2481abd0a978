"""Colours that are told apart by every eye, and text that can be read, in both themes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tracelake.reports import page

_CSS = (Path(page.__file__).parent / "theme.css").read_text("utf-8")
_TOKENS = {n: {"light": a, "dark": b} for n, a, b in re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", _CSS)}
_VISION = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
_LEDGER = ("compute", "exposed-comm", "exposed-mem", "sync", "idle")
_STEP = ("compute", "exposed-comm", "exposed-mem", "runtime", "data-loading", "host", "other")
Color = tuple[float, float, float]


def _linear(code: str) -> Color:
    r, g, b = (int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in (r, g, b))  # type: ignore[return-value]


def _lab(c: Color) -> Color:
    def root(t: float) -> float:
        return t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116

    x, y, z = (
        root(max(0.0, v))
        for v in (
            (0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.9505,
            0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2],
            (0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.089,
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _seen(token: str, theme: str, vision: str) -> Color:
    c = _linear(_TOKENS[token][theme])
    r, g, b = (sum(m * v for m, v in zip(row, c, strict=True)) for row in _VISION[vision])
    return _lab((r, g, b))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("vision", list(_VISION))
@pytest.mark.parametrize(("tokens", "limit"), [(_LEDGER, 25), (_STEP, 15)], ids=["ledger", "step"])
def test_parts_are_told_apart(tokens: tuple[str, ...], limit: int, vision: str, theme: str) -> None:
    for a, b in itertools.combinations(tokens, 2):
        first, second = _seen(a, theme, vision), _seen(b, theme, vision)
        distance = sum((x - y) ** 2 for x, y in zip(first, second, strict=True)) ** 0.5
        assert round(distance) >= limit, (a, b, distance)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ink", ["ink", "ink-2", "ink-3", "accent", "bad", "warn", "good", "info"])
def test_text_can_be_read(ink: str, theme: str) -> None:
    def luminance(token: str) -> float:
        r, g, b = _linear(_TOKENS[token][theme])
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    grounds = ["surface", "page", *([f"{ink}-soft"] if f"{ink}-soft" in _TOKENS else [])]
    for ground in grounds:
        low, high = sorted((luminance(ink), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, ground


def test_every_token_in_use_is_defined() -> None:
    folder = Path(page.__file__).parent
    text = _CSS + "".join(f.read_text("utf-8") for f in (*folder.glob("*.py"), *folder.glob("panels/*.py")))
    used = set(re.findall(r'var\(--([\w-]+)\)|"--([\w-]+)"', text))
    defined = set(re.findall(r"--([\w-]+):", _CSS))
    assert {a or b for a, b in used} - {"h", "x"} <= defined
