"""Settings of a command: defaults, then the conf file, then options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import tomllib

from tracelake.reports.publish.settings import PublishSettings
from tracelake.schemas.bucket import S3Options, storage_at
from tracelake.schemas.storage import Storage

_TABLES = ("lake", "s3", "spark", "parameters", "retention", "publish")
_LAKE = ("path", "wait_seconds")


class BadSettings(ValueError):
    """The conf file is wrong; the text names it and the place."""


@dataclass(frozen=True)
class Settings:
    """What every command takes: where the lake is, how Spark runs, thresholds that differ, how long data stays, and
    where links go."""

    lake: Path | str = "lake"
    """A folder, or s3://bucket/prefix."""
    spark: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    retention: Mapping[str, Any] = field(default_factory=dict)
    s3: S3Options = field(default_factory=S3Options)
    wait_seconds: float | None = None
    """How long a writer waits for another to end; None is as long as it takes."""
    publish: PublishSettings = field(default_factory=PublishSettings)

    @cached_property
    def storage(self) -> Storage:
        return storage_at(str(self.lake), self.s3)


def load(conf: Path | None, lake: Path | str | None) -> Settings:
    """Settings from a conf file, if any, with --lake on top. Raises BadSettings."""
    raw = _read(conf) if conf else {}
    unknown = sorted(set(raw) - set(_TABLES))
    if unknown:
        raise BadSettings(f"{conf}: no table [{unknown[0]}]; there are {', '.join(f'[{t}]' for t in _TABLES)}")
    place = raw.get("lake", {})
    if unknown := sorted(set(place) - set(_LAKE)):
        raise BadSettings(f"{conf}: [lake]: no setting {unknown[0]}; there are {', '.join(_LAKE)}")
    spark = {str(key): str(value) for key, value in raw.get("spark", {}).items()}
    settings = Settings(
        str(lake or place.get("path", "lake")), spark, raw.get("parameters", {}), raw.get("retention", {}),
        _s3(raw.get("s3", {}), conf), _wait_seconds(place.get("wait_seconds"), conf),
        _publish(raw.get("publish", {}), conf),
    )  # fmt: skip
    try:
        settings.storage  # noqa: B018 -- a location that cannot be is said at once
    except ValueError as error:
        raise BadSettings(str(error)) from error
    return settings


def _s3(given: Mapping[str, Any], conf: Path | None) -> S3Options:
    try:
        return S3Options.from_mapping(given)
    except ValueError as error:
        raise BadSettings(f"{conf}: [s3]: {error}") from error


def _publish(given: Mapping[str, Any], conf: Path | None) -> PublishSettings:
    try:
        return PublishSettings.from_mapping(given)
    except ValueError as error:
        raise BadSettings(f"{conf}: {error}") from error


def _wait_seconds(given: Any, conf: Path | None) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or given < 0:
        raise BadSettings(f"{conf}: [lake]: wait_seconds = {given!r}; give seconds, 0 for not at all")
    return float(given)


def _read(conf: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(conf.read_text())
    except OSError as error:
        raise BadSettings(f"{conf}: cannot read the settings ({error.strerror})") from error
    except tomllib.TOMLDecodeError as error:
        raise BadSettings(f"{conf}: not TOML ({error})") from error
