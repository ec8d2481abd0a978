"""Weights & Biases: summary values and a phrase of the notes of the run that the job was logged as.

Online the run is changed through W&B's API and not resumed: resuming would mark a run that has ended as running, and
disturb one that still runs. Offline, what `wandb sync` takes later is written beside other offline runs.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tracelake.reports.publish.model import (
    BadTargetError,
    Delivery,
    DeliveryFailedError,
    NoSuchRunError,
    note,
    noted,
)
from tracelake.reports.publish.settings import WandbOptions

_WORD = re.compile(r"[\w.-]{1,128}", re.ASCII)
SECONDS = 20
"""For an answer of the server."""


class Wandb:
    name = "wandb"
    lacking = "the job has no tag WANDB_RUN_ID, or no WANDB_PROJECT and [publish.wandb] names no project"
    takes_page = False

    def __init__(self, options: WandbOptions) -> None:
        if find_spec("wandb") is None:
            raise BadTargetError("[publish.wandb] needs wandb: pip install 'tracelake[wandb]'")
        self._options = options
        self._key = os.environ.get(options.api_key_env, "")
        if options.mode == "online" and not self._key:
            raise BadTargetError(
                f"[publish.wandb]: {options.api_key_env} is not in the environment; set it to a key of W&B, or set"
                ' mode = "offline"'
            )
        self.place = f"{options.mode} {options.base_url}"
        self._connection: Any = None

    def reference(self, delivery: Delivery) -> str | None:
        """[entity/]project/run."""
        entity = delivery.ids.get("WANDB_ENTITY") or self._options.entity
        project = delivery.ids.get("WANDB_PROJECT") or self._options.project
        parts = [*([entity] if entity else []), project, delivery.ids.get("WANDB_RUN_ID", "")]
        return "/".join(parts) if all(map(_WORD.fullmatch, parts)) else None

    def send(self, delivery: Delivery, reference: str) -> None:
        import wandb

        try:
            if self._options.mode == "offline":
                self._write(delivery, reference)
            else:
                self._change(delivery, reference)
        except (wandb.Error, ValueError, OSError) as error:
            if "Could not find run" in str(error):
                raise NoSuchRunError(f"no run {reference} there") from error
            is_down = self._options.mode == "online" and self._connection is None
            raise DeliveryFailedError(f"{type(error).__name__}: {error}", is_down=is_down) from error

    def _change(self, delivery: Delivery, reference: str) -> None:
        if self._connection is None:
            import wandb

            given = {"base_url": self._options.base_url} if self._options.base_url else {}
            self._connection = wandb.Api(overrides=given, timeout=SECONDS, api_key=self._key)
        run = self._connection.run(reference)
        changed = {name: value for name, value in summary(delivery).items() if run.summary.get(name) != value}
        if changed:
            run.summary.update(changed)
        described = noted(run.notes, note(delivery))
        if described != run.notes:
            run.notes = described
            run.update()

    def _write(self, delivery: Delivery, reference: str) -> None:
        """The notes stay as they are: what the user wrote there cannot be read."""
        import wandb

        entity, _, rest = reference.rpartition("/")[0].rpartition("/")
        quiet = wandb.Settings(
            silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True, x_disable_meta=True,
            x_save_requirements=False,
        )  # fmt: skip
        folder = Path(self._options.folder)
        folder.mkdir(parents=True, exist_ok=True)
        run = wandb.init(
            id=reference.rpartition("/")[2], project=rest, entity=entity or None, resume="allow", mode="offline",
            dir=folder, settings=quiet,
        )  # fmt: skip
        run.summary.update(summary(delivery))
        run.finish()
        wandb.teardown()  # only then is the file whole


def summary(delivery: Delivery) -> dict[str, Any]:
    """Our values of a run's summary."""
    return {
        "tracelake/report_url": delivery.page_url,
        "tracelake/fleet_url": delivery.fleet_url,
        "tracelake/status": delivery.word,
        "tracelake/attempt": delivery.attempt,
        **{f"tracelake/{name}": value for name, value in delivery.figures.items()},
    }
