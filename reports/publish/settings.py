"""[publish] of the settings. No secret stands there: what is one is named by an environment variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar
from urllib.parse import urlsplit

_WEB = ("http", "https")
_TRACKERS = (*_WEB, "sqlite", "postgresql", "mysql", "mssql", "databricks")
ARTIFACTS, MODES = ("link", "page", "none"), ("online", "offline")


def _check_url(name: str, url: str, schemes: tuple[str, ...]) -> None:
    parts = urlsplit(url)
    if parts.scheme.partition("+")[0] not in schemes or (parts.scheme in _WEB and not parts.hostname):
        raise ValueError(f"{name} is no address that begins with {', '.join(f'{s}://' for s in schemes)}")
    if parts.password:
        raise ValueError(f"{name} holds a password; give credentials by the tracker's own environment variables")


@dataclass(frozen=True)
class MlflowOptions:
    """[publish.mlflow]"""

    tracking_uri: str = ""
    trusted_uris: tuple[str, ...] = ()
    """Further servers, which a job's own MLFLOW_TRACKING_URI may name."""
    artifact: str = "link"

    def __post_init__(self) -> None:
        if not self.tracking_uri and not self.trusted_uris:
            raise ValueError("set tracking_uri, the address of the MLflow server")
        for uri in (self.tracking_uri, *self.trusted_uris):
            if uri and uri != "databricks":
                _check_url("tracking_uri", uri, _TRACKERS)
        if self.artifact not in ARTIFACTS:
            raise ValueError(f"artifact = {self.artifact!r}; choose {', '.join(ARTIFACTS)}")


@dataclass(frozen=True)
class WandbOptions:
    """[publish.wandb]"""

    mode: str = "online"
    base_url: str = ""
    entity: str = ""
    project: str = ""
    folder: str = "."
    api_key_env: str = "WANDB_API_KEY"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode = {self.mode!r}; choose {', '.join(MODES)}")
        if self.base_url:
            _check_url("base_url", self.base_url, _WEB)


@dataclass(frozen=True)
class WebhookOptions:
    """[publish.webhook]"""

    url: str = ""
    url_env: str = ""
    token_env: str = ""
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.url_env):
            raise ValueError("set url, or url_env where the address is a secret itself")
        if self.url:
            _check_url("url", self.url, _WEB)
        if not 0 < self.timeout_s <= 600:
            raise ValueError(f"timeout_s = {self.timeout_s:g}; give seconds, above 0 and up to 600")


OPTIONS = {"mlflow": MlflowOptions, "wandb": WandbOptions, "webhook": WebhookOptions}
"""Targets by their names; one is used where its table stands in the settings."""


@dataclass(frozen=True)
class PublishSettings:
    base_url: str = ""
    """Address under which the reports folder is served."""
    mlflow: MlflowOptions | None = None
    wandb: WandbOptions | None = None
    webhook: WebhookOptions | None = None

    def __post_init__(self) -> None:
        if self.base_url:
            _check_url("base_url", self.base_url, _WEB)

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(name for name in OPTIONS if getattr(self, name) is not None)

    @staticmethod
    def from_mapping(given: Mapping[str, Any]) -> PublishSettings:
        """From [publish] of the settings. Raises ValueError naming the table and the key."""
        made: dict[str, Any] = {}
        for name, options in OPTIONS.items():
            if name in given:
                made[name] = _read(options, given[name], f"[publish.{name}]")
        plain = {name: value for name, value in given.items() if name not in OPTIONS}
        return _read(PublishSettings, plain, "[publish]", **made)


Options = TypeVar("Options")


def _read(kind: type[Options], given: Any, place: str, **made: Any) -> Options:
    if not isinstance(given, Mapping):
        raise ValueError(f"{place} is no table")
    defaults = {f.name: f.default for f in fields(kind) if f.default not in (MISSING, None)}  # type: ignore[arg-type]
    values = {name: _value(name, value, defaults, place) for name, value in given.items()}
    try:
        return kind(**values, **made)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _value(name: str, value: Any, defaults: Mapping[str, Any], place: str) -> Any:
    """The value as its field's default has it: text, a number or a list of texts."""
    if name not in defaults:
        tables = f", and the tables {', '.join(OPTIONS)}" if place == "[publish]" else ""
        raise ValueError(f"{place}: no setting {name}; there are {', '.join(defaults)}{tables}")
    default = defaults[name]
    if isinstance(default, tuple) and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    if isinstance(default, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, str) and isinstance(value, str):
        return value
    wanted = {tuple: "a list of texts", float: "a number", str: "text"}[type(default)]
    raise ValueError(f"{place}: {name} is not {wanted}")
