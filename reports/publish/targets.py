"""The targets that the settings name, ready to deliver."""

from __future__ import annotations

from collections.abc import Sequence

from tracelake.reports.publish.mlflow import Mlflow
from tracelake.reports.publish.model import BadTargetError, Target
from tracelake.reports.publish.settings import OPTIONS, PublishSettings
from tracelake.reports.publish.wandb import Wandb
from tracelake.reports.publish.webhook import Webhook

_MADE_BY = {"mlflow": Mlflow, "wandb": Wandb, "webhook": Webhook}


def targets(settings: PublishSettings, names: Sequence[str] = ()) -> list[Target]:
    """Those named, else all that are set up. Raises BadTargetError for one that cannot work."""
    for name in names:
        if name not in OPTIONS:
            raise BadTargetError(f"no target {name}; there are {', '.join(OPTIONS)}")
        if name not in settings.targets:
            raise BadTargetError(f"target {name} is not set up: the settings have no table [publish.{name}]")
    chosen = [name for name in settings.targets if name in names or not names]
    return [_MADE_BY[name](getattr(settings, name)) for name in chosen]
