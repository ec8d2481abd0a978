"""Mend JSON text that other tools write although it is not JSON, without losing what it says."""

from __future__ import annotations

import codecs
import re

_TOKEN = re.compile(
    rb'"(?P<text>(?:[^"\\]|\\.)*)"'  # a string, whatever bytes it holds
    rb"|[\s,:{}\[\]]+"
    rb'|(?P<word>[^\s,:{}\[\]"]+)',
    re.DOTALL,
)
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
_CONTROL = re.compile(rb"[\x00-\x1f]")


def repair(text: bytes, warnings: dict[str, int]) -> bytes:
    """`text` with control bytes and bytes outside UTF-8 escaped inside strings, and bare words such as NaN or N/A
    replaced by null. Each repair adds to `warnings` under its kind. Lossless: different bytes stay different.
    """
    return _TOKEN.sub(lambda match: _token(match, warnings), text)


def _token(match: re.Match[bytes], warnings: dict[str, int]) -> bytes:
    word = match["word"]
    if word is not None:
        if word in (b"true", b"false", b"null") or _NUMBER.match(word):
            return word
        _count(warnings, "token_not_json")
        return b"null"
    body = match["text"]
    if body is None:
        return match.group()
    if _CONTROL.search(body):
        _count(warnings, "control_byte")
        body = _CONTROL.sub(lambda m: b"\\u%04x" % m.group()[0], body)
    try:
        body.decode()
    except UnicodeDecodeError:
        _count(warnings, "not_utf8")
        # A byte that is not UTF-8 becomes its escape as text (\x9f), so that two names never fold into one.
        body = body.decode("utf-8", "surrogateescape").encode("utf-8", "tracelake.byte_escape")
    return b'"' + body + b'"'


def _count(warnings: dict[str, int], kind: str) -> None:
    warnings[kind] = warnings.get(kind, 0) + 1


def _escape(error: UnicodeError) -> tuple[bytes, int]:
    """Codec error handler: a lone surrogate that stands for byte b becomes the JSON text \\\\xbb."""
    assert isinstance(error, UnicodeEncodeError)
    out = b"".join(b"\\\\x%02x" % (ord(char) & 0xFF) for char in error.object[error.start : error.end])
    return out, error.end


codecs.register_error("tracelake.byte_escape", _escape)
