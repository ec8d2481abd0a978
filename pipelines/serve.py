"""Spark Connect on loopback over a lake's tables and views; it ends by itself when nobody asks."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tracelake.pipelines.lake import Lake
from tracelake.schemas.catalog import tables

HOST = "127.0.0.1"
_POLL_SECONDS = 1.0


class CannotServe(RuntimeError):
    """The port cannot be had, or Spark ended; the text says what to do."""


def free_port(port: int) -> int:
    """`port`, or any free one for 0. Raises CannotServe where it cannot be had.

    Asked before Spark starts: whoever mistypes a port should not wait for that.
    """
    if not 0 <= port <= 65535:
        raise CannotServe(f"--port {port}: choose 1 to 65535, or 0 for any free port")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            said = os.strerror(error.errno) if error.errno else str(error)
            raise CannotServe(f"{HOST}:{port}: {said.lower()}; choose another --port") from error
        return int(probe.getsockname()[1])


def connect_settings(port: int) -> dict[str, str]:
    """Settings of the session that is to serve."""
    return {"spark.connect.grpc.binding.address": HOST, "spark.connect.grpc.binding.port": str(port)}


def serve(lake: Lake, spark: SparkSession, *, idle_seconds: float, ready: Callable[[], None], stop: Event) -> str:
    """Answer until `stop` is set or nobody has asked for `idle_seconds` (0 = for ever); why it ended, in words.

    `ready` is called once the tables are there and the port answers. Tables that a run writes for the first time appear
    while it serves; rows that runs add are seen by the next query in any case.
    """
    lake.register(spark)
    server = _Server(spark)
    server.start()
    ready()
    try:
        ended = _attend(lake, spark, server, idle_seconds, stop)
        server.stop()
    except (Py4JError, ConnectionError) as error:
        # A signal to the whole process group ends Spark too, perhaps first.
        if not stop.wait(_POLL_SECONDS):
            raise CannotServe("Spark ended by itself; start again") from error
        return "stopped"
    return ended


def _attend(lake: Lake, spark: SparkSession, server: _Server, idle_seconds: float, stop: Event) -> str:
    known = _written(lake)
    while not stop.wait(_POLL_SECONDS):
        if 0 < idle_seconds <= server.idle_seconds():
            return f"no query for {idle_seconds / 3600:g} hours"
        if (now := _written(lake)) != known:
            # A table whose first commit is still on its way is there at the next look.
            with suppress(PySparkException):
                lake.register(spark)
                known = now
    return "stopped"


def _written(lake: Lake) -> frozenset[str]:
    return frozenset(name for name, each in tables().items() if each.layer != "raw" and lake.exists(each))


class _Server:
    """Spark's own Connect service, in the driver of a session; its jar is among those that pyspark ships."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._context: Any = spark.sparkContext._jsc
        self._service = jvm.org.apache.spark.sql.connect.service.SparkConnectService

    def start(self) -> None:
        """Raises CannotServe where another program took the port in the meantime."""
        try:
            self._service.start(self._context.sc())
        except Py4JError as error:
            raise CannotServe(f"Spark Connect does not start ({str(error).splitlines()[-1]})") from error

    def idle_seconds(self) -> float:
        """Since the last query ended; 0 while one runs."""
        executions = self._service.listActiveExecutions()
        if executions.isRight():
            return 0.0
        return float(self._jvm.java.lang.System.nanoTime() - executions.left().get()) / 1e9

    def stop(self) -> None:
        none = self._jvm.scala.Option.empty()
        self._service.stop(none, none)
