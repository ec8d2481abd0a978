"""MLflow: tags, metrics, a phrase of the description and an artifact of the run that the job was logged as."""

from __future__ import annotations

import math
import os
import re
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tracelake.reports.html import text
from tracelake.reports.publish.model import (
    BadTargetError,
    Delivery,
    DeliveryFailedError,
    NoSuchRunError,
    note,
    noted,
)
from tracelake.reports.publish.settings import MlflowOptions

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

ARTIFACT = "tracelake/report.html"
_NOTE_TAG, _LONGEST_NOTE = "mlflow.note.content", 5000
_RUN_ID = re.compile(r"[A-Za-z0-9][\w-]{0,255}", re.ASCII)
_USER_INFO = re.compile(r"//[^/@]*@")
# Its own would try for minutes; where the environment sets them, they are the user's.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
_GONE = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
_UNREACHABLE = ("failed with exception", "Max retries exceeded", "OperationalError")


class Mlflow:
    name = "mlflow"
    lacking = "the job has no tag MLFLOW_RUN_ID, or names a server that is not in trusted_uris"

    def __init__(self, options: MlflowOptions) -> None:
        if find_spec("mlflow") is None:
            raise BadTargetError("[publish.mlflow] needs MLflow's client: pip install 'tracelake[tracking]'")
        self._options = options
        self._clients: dict[str, MlflowClient] = {}
        self.place = f"{options.tracking_uri} {options.artifact}"
        self.takes_page = options.artifact == "page"

    def reference(self, delivery: Delivery) -> str | None:
        run_id = delivery.ids.get("MLFLOW_RUN_ID", "")
        return run_id if _RUN_ID.fullmatch(run_id) and self._uri(delivery) else None

    def _uri(self, delivery: Delivery) -> str:
        """The job's own server where that is trusted: credentials of ours go to no server that a tag made up."""
        captured = _USER_INFO.sub("//", delivery.ids.get("MLFLOW_TRACKING_URI", "")).rstrip("/")
        trusted = next((uri for uri in self._options.trusted_uris if uri.rstrip("/") == captured), "")
        return trusted or self._options.tracking_uri

    def send(self, delivery: Delivery, reference: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            client = self._client(self._uri(delivery))
            run = client.get_run(reference)
            if run.info.lifecycle_stage != "active":
                raise NoSuchRunError(f"run {reference} was deleted there")
            _log(client, run, delivery)
        except MlflowException as error:
            if error.error_code in _GONE:
                raise NoSuchRunError(f"no run {reference} there") from error
            is_down = any(sign in str(error) for sign in _UNREACHABLE)
            raise DeliveryFailedError(f"{error.error_code}: {error}", is_down=is_down) from error
        self._put_artifact(client, delivery, reference)

    def _client(self, uri: str) -> MlflowClient:
        if uri not in self._clients:
            for name, value in _PATIENCE.items():
                os.environ.setdefault(name, value)
            from mlflow import MlflowClient

            try:
                self._clients[uri] = MlflowClient(tracking_uri=uri)
            except Exception as error:
                # A store that is a database is opened here, and raises what its driver raises.
                raise DeliveryFailedError(f"{type(error).__name__}: {error}", is_down=True) from error
        return self._clients[uri]

    def _put_artifact(self, client: MlflowClient, delivery: Delivery, reference: str) -> None:
        if self._options.artifact == "none":
            return
        html = link_page(delivery) if delivery.page is None else delivery.page.decode()
        try:
            client.log_text(reference, html, ARTIFACT)
        except Exception as error:
            # Each kind of artifact store raises what its client raises.
            raise DeliveryFailedError(f"artifact: {type(error).__name__}: {error}") from error


def _log(client: MlflowClient, run: Run, delivery: Delivery) -> None:
    """What differs from what the run has. MLflow appends metrics, so that one written again would be a second point."""
    from mlflow.entities import Metric, RunTag

    held = run.data.tags
    changed = [RunTag(name, value) for name, value in tags(delivery, held).items() if held.get(name) != value]
    now_ms = int(time.time() * 1000)
    metrics = [Metric(name, value, now_ms, 0) for name, value in _changed(run.data.metrics, delivery)]
    if changed or metrics:
        client.log_batch(run.info.run_id, metrics=metrics, tags=changed)


def tags(delivery: Delivery, held: dict[str, str]) -> dict[str, str]:
    """Our tags, and the description with our phrase in it, unless that would be too long for MLflow."""
    described = noted(held.get(_NOTE_TAG), note(delivery))
    return {
        "tracelake.report_url": delivery.page_url,
        "tracelake.job_id": delivery.job_id,
        "tracelake.attempt": str(delivery.attempt),
        "tracelake.status": delivery.word,
        **({"tracelake.fleet_url": delivery.fleet_url} if delivery.fleet_url else {}),
        **({_NOTE_TAG: described} if len(described) <= _LONGEST_NOTE else {}),
    }


def _changed(held: dict[str, float], delivery: Delivery) -> list[tuple[str, float]]:
    """Figures that differ. One that is known no longer becomes NaN: a metric cannot be taken back."""
    wanted = {f"tracelake/{name}": value for name, value in delivery.figures.items()}
    known = {
        name: math.nan if value is None else value
        for name, value in wanted.items()
        if value is not None or name in held
    }
    return [(name, value) for name, value in known.items() if not _same(held.get(name), value)]


def _same(one: Any, other: float) -> bool:
    return one == other or (one is not None and math.isnan(one) and math.isnan(other))


def link_page(delivery: Delivery) -> str:
    """A page that links the report."""
    title = f"{text(delivery.job_id)} – tracelake"
    return (
        f'<!doctype html><meta charset="utf-8"><title>{title}</title>'
        f'<p><a href="{text(delivery.page_url)}" target="_blank" rel="noopener">Report of {text(delivery.job_id)}</a>'
        f" ({text(delivery.word)})</p>\n"
    )
