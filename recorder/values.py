"""Values as code, a variable or a file gives them. Each reader raises ValueError with the remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracelake.recorder.redact import hide_map

GIB, MIB = 1 << 30, 1 << 20
SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_SIZES = {"": 1, "b": 1, "kib": 1 << 10, "mib": MIB, "gib": GIB, "tib": 1 << 40}


def read_text(value: object) -> str:
    if not isinstance(value, (str, os.PathLike)) or not str(value).strip():
        raise ValueError("give text")
    # Variables may hold bytes that are no UTF-8; Parquet and JSON could not store them.
    return str(value).strip().encode("utf-8", "replace").decode()


def read_output(value: object) -> str:
    text = read_text(value)
    if "://" in text and not (text.startswith("s3://") and text[5:].strip("/")):
        raise ValueError("give a folder or s3://bucket/prefix")
    return text


def read_switch(value: object) -> bool:
    known = SWITCHES.get(str(value).strip().lower()) if isinstance(value, (bool, int, str)) else None
    if known is None:
        raise ValueError("give 1 or 0")
    return known


class Number:
    """A number within its bounds, whole unless said otherwise; sizes may have a unit (256 MiB)."""

    def __init__(self, least: float, most: float, *, is_whole: bool = True, is_size: bool = False) -> None:
        self.least, self.most, self.is_whole, self.is_size = least, most, is_whole, is_size

    def __call__(self, value: object) -> Any:
        kind = "number of bytes (256 MiB)" if self.is_size else "whole number" if self.is_whole else "number"
        remedy = f"give a {kind} from {self.least:.16g} to {self.most:.16g}"
        try:
            if isinstance(value, bool) or not isinstance(value, (int, float, str)):
                raise ValueError(remedy)
            found = self._scaled(value) if self.is_size and isinstance(value, str) else float(value)
        except (ValueError, OverflowError, KeyError):
            raise ValueError(remedy) from None
        if not self.least <= found <= self.most or (self.is_whole and found != int(found)):
            raise ValueError(remedy)
        return int(found) if self.is_whole else found

    def _scaled(self, text: str) -> float:
        unit = text.lstrip("0123456789._ ")
        return float(text[: len(text) - len(unit)]) * _SIZES[unit.strip().lower()]


def read_map(value: object) -> dict[str, str]:
    remedy = 'give pairs: {"name": "value"} as JSON, or name=value,name=value'
    if isinstance(value, str):
        value = _pairs(value.strip(), remedy)
    if not isinstance(value, Mapping):
        raise ValueError(remedy)
    return {_plain(name): _plain(held) for name, held in value.items()}


def _pairs(text: str, remedy: str) -> object:
    if text.startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(remedy) from None
    split = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    if not all(sign and name.strip() for name, sign, _ in split):
        raise ValueError(remedy)
    return {name.strip(): held.strip() for name, _, held in split}


def _plain(value: object) -> str:
    """Text as it is, and anything else as JSON would say it."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def read_notes(value: object) -> dict[str, str]:
    """A map that goes into the lake, so without secrets."""
    return hide_map(read_map(value))


def default_spool() -> Path:
    import tempfile

    try:
        folder = Path(tempfile.gettempdir())
    except OSError:
        folder = Path("/tmp")
    return folder / f"tracelake-{os.getuid()}"


def read_folder(value: object) -> Path:
    return Path(read_text(value))
