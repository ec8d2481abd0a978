"""`tracelake serve`, without the terminal."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

from tracelake import commands
from tracelake.commands import UserError
from tracelake.settings import Settings

_PY4J = ("java_gateway", "clientserver")
"""Modules of py4j that log what goes wrong with its connection."""


def serve(settings: Settings, *, port: int, idle_hours: float, ready: Callable[[str], None]) -> str:
    """Answer remote Spark sessions until a signal or idle hours end it; why it ended. `ready` gets the address.

    Raises UserError for a lake that is not there, hours that make no sense, a port that cannot be had.
    """
    from py4j.protocol import Py4JError

    from tracelake.pipelines.serve import CannotServe, connect_settings, free_port
    from tracelake.pipelines.serve import serve as answer

    if not idle_hours >= 0:
        raise UserError(f"--idle-hours {idle_hours:g}: give hours, or 0 for never")
    commands._check_job(settings, None)
    ended = ""
    try:
        port = free_port(port)
        serving = replace(settings, spark={**settings.spark, **connect_settings(port)})
        with commands._session(serving, "serve") as session, _signals() as stop:
            ended = answer(
                commands.lake_of(settings),
                session,
                idle_seconds=idle_hours * 3600,
                # By name: only so do clients send a token without TLS.
                ready=lambda: ready(f"sc://localhost:{port}"),
                stop=stop,
            )
    except CannotServe as error:
        raise UserError(str(error)) from error
    except (Py4JError, ConnectionError):
        # Spark, ended by the same signal, cannot be asked to stop.
        if not ended:
            raise
    return ended


@contextmanager
def _signals() -> Iterator[Event]:
    """An event that SIGTERM and SIGINT set. Entered after Spark's start, which takes SIGINT for itself."""
    stop = Event()

    def end(*_: object) -> None:
        # Spark gets the signal too: py4j need not report, by the root logger, that it no longer answers.
        logging.getLogger().addFilter(lambda record: record.module not in _PY4J)
        stop.set()

    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
