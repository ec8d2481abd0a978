"""Publication on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelake import log
from tracelake import publish as work
from tracelake.cli import ConfOption, LakeOption, NoWaitOption, _command, _out, app
from tracelake.commands import UserError


@app.command()
def publish(
    jobs: Annotated[list[str] | None, typer.Argument(help="Jobs; all that have a page by default.")] = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", help="mlflow, wandb or webhook; all that are set up by default.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the pages (default <lake>/reports).")] = None,
    url: Annotated[str | None, typer.Option("--url", help="Address that serves it (default: the settings').")] = None,
    no_wait: NoWaitOption = False,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Put links and key figures of jobs into MLflow, Weights & Biases or a webhook; what is there already stays.

    Example: tracelake publish --conf conf/tracelake.toml --target mlflow
    """
    with _command(lake, conf, no_wait) as settings:
        if not settings.publish.targets and not target:
            raise UserError(
                "no target is set up; the settings need [publish.mlflow], [publish.wandb] or [publish.webhook]"
            )
        if url is not None and not url.startswith(("http://", "https://")):
            raise UserError(f"--url {url}: give an address that begins with http:// or https://")
        with log.progress("publish") as progress:
            done = work.publish(
                settings, jobs=jobs or None, targets=target or (), place=work.Place(out, url), progress=progress
            )
        told = ", ".join(f"{name} {count:,}" for name, count in done.delivered.items())
        _out.print(f"Delivered: {told}; unchanged {done.unchanged:,}; without a run there {done.nothing_to_do:,}")
        log.warn_each("left out", [f"{job}: {why}" for job, why in done.left_out])
        log.warn_each("not delivered", [f"{job} to {name}: {why}" for job, name, why in done.failed])
        if done.failed:
            failed = f"{len(done.failed):,} deliveries failed"
            log.warn("not delivered", f"{failed}; the next `tracelake publish` tries them again")
