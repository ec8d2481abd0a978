"""The night on the command line."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from tracelake import commands, log, nightly
from tracelake.cli import ConfOption, LakeOption, NoWaitOption, _command, _day, _out, app


@app.command(name="nightly")
def nightly_(
    day: Annotated[str | None, typer.Option("--day", help="Take in only windows that start on this UTC day.")] = None,
    stage: Annotated[
        str | None, typer.Option("--stage", help="run, reports or publish alone; all three by default.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Make the tables again, as `backfill` does.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="End with what was done as one line of JSON.")] = False,
    no_wait: NoWaitOption = False,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Take in what is new, write the pages of what changed, publish them.

    Example: tracelake nightly --json
    """
    with _command(lake, conf, no_wait) as settings:
        if stage is not None and stage not in nightly.STAGES:
            raise commands.UserError(
                f"--stage {stage}: choose {', '.join(nightly.STAGES[:-1])} or {nightly.STAGES[-1]}"
            )
        if again and stage not in (None, "run"):
            raise commands.UserError("--again is about the tables; leave it out, or give --stage run")
        with log.progress("nightly") as progress:
            night = nightly.nightly(settings, day=_day(day), stage=stage, again=again, progress=progress)
        _say(night)
        if json_:
            print(json.dumps(asdict(night), default=str))
        if night.failed_pages:
            named = "; ".join(f"{each['page']}: {each['error']}" for each in night.failed_pages[:5])
            raise commands.UserError(f"{len(night.failed_pages):,} pages were not made, run again: {named}")


def _say(night: nightly.Night) -> None:
    """For people; programs read the line of JSON after it."""
    if night.is_empty:
        _out.print(f"Nothing new{f' on {night.day}' if night.day else ''}.", markup=False)
        return
    parts = {
        "windows": night.windows, "jobs": len(night.jobs), "pages": len(night.pages),
        "checks failed": night.failed_check_count, "jobs that may not be published": night.unpublishable_count,
        "findings to look at": night.finding_count,
        "deliveries": sum(night.deliveries.get("delivered", {}).values()),
    }  # fmt: skip
    _out.print(", ".join(f"{count:,} {name}" for name, count in parts.items()), markup=False)
    if night.refused:
        log.warn("left out", f"{night.refused:,} windows of jobs that retention has removed")
    if night.incomplete:
        log.warn("incomplete", night.incomplete)
    log.warn_each("left out", [": ".join(each) for each in night.deliveries.get("left_out", ())])
    log.warn_each("not delivered", [": ".join(each) for each in night.deliveries.get("failed", ())])
