"""Operators and defaults of the DAGs."""

from __future__ import annotations

import datetime as dt
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator, Connection, TriggerRule, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException
from airflow.sdk.log import redact

from tracelake_dags.lake import CONNECTION, CommandFailed, Lake, Running, Unconfigured
from tracelake_dags.notify import Message, tell

log = logging.getLogger(__name__)
POOL = os.environ.get("TRACELAKE_POOL", "default_pool")
"""A pool of one slot keeps two of the lake's drivers off one machine; it must exist, or no task starts."""


def lake() -> Lake:
    """The connection. Raises AirflowFailException, since trying again changes nothing."""
    try:
        return Lake.from_extra(Connection.get(CONNECTION).extra_dejson)
    except AirflowNotFoundException:
        raise AirflowFailException(
            f"no connection {CONNECTION}: add one of type generic with extra"
            ' {"command": "/opt/lake/bin/tracelake", "lake": "s3://bucket/lake"}; see docs/airflow.md'
        ) from None
    except Unconfigured as error:
        raise AirflowFailException(str(error)) from None


class LakeOperator(BaseOperator):
    """One command of the lake; what it prints is the task's log, its line of JSON the result."""

    template_fields: Sequence[str] = ("command", "arguments")
    ui_color = "#e8f0fe"

    def __init__(self, *, command: Sequence[str], arguments: Any = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command
        self.arguments = arguments
        self._running: Running | None = None

    def execute(self, context: Any) -> dict[str, Any] | None:
        words = [self.arguments] if isinstance(self.arguments, str) else list(self.arguments)
        found = lake()
        try:
            self._running = Running(found.argv(self.command, words), found.env)
            return self._running.finish(self.log.info)
        except Unconfigured as error:
            raise AirflowFailException(str(error)) from None
        except CommandFailed as error:
            raise AirflowException(str(error)) from None

    def on_kill(self) -> None:
        if self._running is not None:
            self._running.stop()


def task_failed(context: Mapping[str, Any]) -> None:
    """on_failure_callback: after the last try."""
    instance = context["ti"]
    why = str(redact(str(context.get("exception") or "ended from outside; the scheduler's log says more")))
    details = {
        "dag_id": instance.dag_id,
        "task_id": instance.task_id,
        "run_id": instance.run_id,
        "try_number": instance.try_number,
        "log_url": getattr(instance, "log_url", None),
    }
    title = f"{instance.dag_id}.{instance.task_id} failed"
    told(Message("task_failed", title, (*why.splitlines(), f"run {instance.run_id}"), details))


def told(message: Message) -> int:
    """Tell those that the connection names; without a connection nobody can be told."""
    try:
        return tell(lake().notify, message)
    except AirflowException as error:
        log.error("nobody was told of %s: %s", message.title, error)
        return 0


def defaults(hours: float, retries: int = 3) -> dict[str, Any]:
    """default_args: tried again after 2, 4, 8 … minutes, at most half an hour."""
    wait = dt.timedelta(seconds=float(os.environ.get("TRACELAKE_RETRY_SECONDS", 120)))
    return {
        "owner": "tracelake",
        "pool": POOL,
        "retries": retries,
        "retry_delay": wait,
        "retry_exponential_backoff": True,
        "max_retry_delay": dt.timedelta(minutes=30),
        "execution_timeout": dt.timedelta(hours=hours),
        "on_failure_callback": task_failed,
    }


def last_task(task_id: str, outlets: Iterable[Any] = ()) -> Any:
    """The end of a DAG: it succeeds where all before it did, so that a run is never green with a failed task in it.

    Its outlets' events carry what it is called with.
    """
    own = tuple(outlets)

    @task(task_id=task_id, outlets=list(own), trigger_rule=TriggerRule.NONE_FAILED, retries=0)
    def end(extra: dict[str, Any] | None, **context: Any) -> None:
        for asset in own:
            context["outlet_events"][asset].extra = extra or {}

    return end
