"""What a page embeds besides its own code: the Vega libraries and the fonts, each made once and kept."""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile

VEGA_LITE = "6.4"
"""The version that altair 6 writes; vl-convert carries the libraries for it."""

# Latin, general punctuation and the few signs that pages print. Other letters come from the reader's system.
_UNICODES = (
    "U+0020-007E,U+00A0-017F,U+2010-2027,U+202F-2033,U+2070-2079,U+20AC,U+2190-2193,U+2212,U+2229,U+222A,U+2248,"
    "U+2264-2265"
)
_FEATURES = ["kern", "tnum", "calt", "ccmp", "locl", "mark", "cv05", "zero"]
_FONTS = (
    ("Inter", "fontpkg_inter", "Inter[opsz,wght].ttf", {"opsz": 14, "wght": (400, 700)}),
    ("JetBrains Mono", "fontpkg_jetbrains_mono", "JetBrainsMono[wght].ttf", {"wght": 400}),
)


def vega() -> str:
    """vega, vega-lite, vega-embed and the expression interpreter, as one module that sets window.vegaEmbed."""
    snippet = "window.vegaEmbed = vegaEmbed;"

    def make() -> str:
        import vl_convert

        return vl_convert.javascript_bundle(snippet, vl_version=VEGA_LITE)

    return _kept("vega.js", f"{snippet} {VEGA_LITE} {_version('vl-convert-python')}", make)


def fonts() -> str:
    """@font-face rules with the fonts inside; empty where the font packages are not installed."""
    if not all(find_spec(package) for package in ("fontTools", *(f[1] for f in _FONTS))):
        return ""
    versions = [_version(p) for p in ("fonttools", "fontpkg-inter", "fontpkg-jetbrains-mono")]
    recipe = f"{versions} {_UNICODES} {_FEATURES} {_FONTS}"
    return _kept("fonts.css", recipe, lambda: "".join(_font_face(*font) for font in _FONTS))


def _font_face(family: str, package: str, file: str, axes: dict[str, float | tuple[float, float]]) -> str:
    subset, ttlib, instancer = map(import_module, ("fontTools.subset", "fontTools.ttLib", "fontTools.varLib.instancer"))
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    font = ttlib.TTFont(Path(spec.origin).parent / "files" / file, lazy=True)
    subsetter = subset.Subsetter(subset.Options(layout_features=_FEATURES, hinting=False))
    subsetter.populate(unicodes=subset.parse_unicodes(_UNICODES))
    subsetter.subset(font)
    font = instancer.instantiateVariableFont(font, axes)
    font.flavor = "woff"  # woff2 is a quarter smaller and would need brotli
    out = io.BytesIO()
    font.save(out)
    data = base64.b64encode(out.getvalue()).decode()
    weight = "400 700" if isinstance(axes["wght"], tuple) else "400"
    source = f'url(data:font/woff;base64,{data}) format("woff")'
    return f'@font-face{{font-family:"{family}";font-weight:{weight};src:{source}}}'


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "0"


def _kept(name: str, recipe: str, make: Callable[[], str]) -> str:
    """The text that make() gives, kept in the user's cache by its recipe: both cost seconds and never change."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    file = base / "tracelake" / f"{hashlib.sha256(recipe.encode()).hexdigest()[:16]}-{name}"
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        pass
    made = make()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, delete=False) as aside:
            aside.write(made)
        Path(aside.name).replace(file)
    except OSError:
        pass  # without a cache a page takes seconds longer
    return made
