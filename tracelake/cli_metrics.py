"""Monitoring on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelake import metrics as work
from tracelake.cli import ConfOption, LakeOption, _command, app


@app.command()
def metrics(
    out: Annotated[Path | None, typer.Option("--out", help="File, such as node_exporter's textfiles/x.prom.")] = None,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Print the last runs and what is open in the lake, as Prometheus reads it. It writes nothing in the lake.

    Example: tracelake metrics --out /var/lib/node_exporter/tracelake.prom
    """
    with _command(lake, conf) as settings:
        told = work.metrics(settings, out)
        if not out:
            print(told, end="")
