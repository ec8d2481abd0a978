"""Settings of a command: defaults, then the conf file, then options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomllib

_TABLES = ("lake", "spark", "parameters", "retention")


class BadSettings(ValueError):
    """The conf file is wrong; the text names it and the place."""


@dataclass(frozen=True)
class Settings:
    """What every command takes: where the lake is, how Spark runs, thresholds that differ, how long data stays."""

    lake: Path = Path("lake")
    spark: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    retention: Mapping[str, Any] = field(default_factory=dict)


def load(conf: Path | None, lake: Path | None) -> Settings:
    """Settings from a conf file, if any, with --lake on top. Raises BadSettings."""
    raw = _read(conf) if conf else {}
    unknown = sorted(set(raw) - set(_TABLES))
    if unknown:
        raise BadSettings(f"{conf}: no table [{unknown[0]}]; there are {', '.join(f'[{t}]' for t in _TABLES)}")
    chosen = lake or Path(raw.get("lake", {}).get("path", "lake"))
    if "://" in str(chosen) or str(chosen).startswith("s3:"):
        raise BadSettings(f"{chosen}: lakes on object stores are not supported yet; give a folder")
    spark = {str(key): str(value) for key, value in raw.get("spark", {}).items()}
    return Settings(chosen, spark, raw.get("parameters", {}), raw.get("retention", {}))


def _read(conf: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(conf.read_text())
    except OSError as error:
        raise BadSettings(f"{conf}: cannot read the settings ({error.strerror})") from error
    except tomllib.TOMLDecodeError as error:
        raise BadSettings(f"{conf}: not TOML ({error})") from error
