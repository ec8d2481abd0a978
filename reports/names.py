"""Names from the program: bounded, shortened in the middle, and told apart where their short forms are the same."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

MAX_NAME = 2_048
"""Characters of a name that a page keeps."""
MAX_LABEL = 96
"""Characters of a name in a cell, before the style sheet shortens it further."""
MAX_HINT = 28

_INVISIBLE = {code: f"\\u{code:04x}" for code in (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_INVISIBLE |= {code: f"\\u{code:04x}" for code in (*range(0x20), 0x7F, 0x2028, 0x2029) if code not in (9, 10, 13)}


def visible(raw: str) -> str:
    r"""Direction marks and control characters written out: unseen, they reorder or hide what stands beside them.

    >>> visible("left\u200fright")
    'left\\u200fright'
    """
    return raw.translate(_INVISIBLE)


def bounded(name: str, limit: int = MAX_NAME) -> str:
    """A name of at most about so many characters; the hash keeps long names apart that differ in the middle."""
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    half = limit // 2
    return f"{name[:half]} … {name[-half:]} ({len(name)} characters, sha256 {digest}…)"


def label(name: str, limit: int = MAX_LABEL) -> str:
    """A name for a label: shortened in the middle.

    >>> label("abcdefghijklmnop", 9)
    'abcd…mnop'
    """
    if len(name) <= limit:
        return visible(name)
    half = (limit - 1) // 2
    return visible(f"{name[:half]}…{name[-half:]}")


def told_apart(names: Sequence[tuple[str, str]]) -> list[str]:
    """Short forms of (full, short) names; where several are the same, with the first word that sets each apart.

    >>> told_apart([("k<Add, 4>", "k"), ("k<Mul, 4>", "k"), ("gemm<4>", "gemm")])
    ['k · Add', 'k · Mul', 'gemm']
    """
    groups: dict[str, set[str]] = {}
    for full, short in names:
        groups.setdefault(short, set()).add(full)
    spread = {short: Counter(w for n in fulls for w in set(_words(n))) for short, fulls in groups.items()}
    return [_with_hint(full, short, spread[short], len(groups[short])) for full, short in names]


def _words(name: str) -> list[str]:
    return re.findall(r"\w+", name[:MAX_NAME]) if len(name) <= MAX_NAME else [name]


def _with_hint(full: str, short: str, spread: Counter[str], names: int) -> str:
    own = [w for w in _words(full) if spread[w] < names]
    if names == 1 or not own:
        return short
    rarest = min(spread[w] for w in own)
    return f"{label(short, MAX_LABEL - MAX_HINT)} · {label(next(w for w in own if spread[w] == rarest), MAX_HINT)}"
