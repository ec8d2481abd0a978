"""Remote SQL on the command line: serve."""

from __future__ import annotations

from typing import Annotated

import typer

from tracelake import serve as work
from tracelake.cli import ConfOption, LakeOption, _command, _out, app


@app.command()
def serve(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes any free one.")] = 15002,
    idle_hours: Annotated[float, typer.Option(help="End after so many hours without a query; 0 = never.")] = 2.0,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Answer remote Spark sessions (Spark Connect) on this machine: the tables and views by their bare names.

    Example: tracelake serve --port 15002
    """
    with _command(lake, conf) as settings:
        ended = work.serve(settings, port=port, idle_hours=idle_hours, ready=_say_ready)
        _out.print(f"Ended: {ended}.")


def _say_ready(address: str) -> None:
    how = f'SparkSession.builder.remote("{address}").getOrCreate()'
    _out.print(f"Serving {address}; connect with {how} of pyspark-client 4.1; Ctrl-C ends it.")
