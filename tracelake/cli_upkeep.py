"""Upkeep on the command line: maintain, delete-job, quarantine, doctor."""

from __future__ import annotations

from typing import Annotated

import typer

from tracelake import log, upkeep
from tracelake.cli import (
    ConfOption,
    LakeOption,
    NoWaitOption,
    _command,
    _out,
    app,
    check_format,
    print_rows,
)

quarantine = typer.Typer(no_args_is_help=True, help="What was set aside, why, and the way back in.")
app.add_typer(quarantine, name="quarantine")

_GRID_COLUMNS = 6
"""More do not fit a terminal; `show`, csv and json have them all."""
JobOption = Annotated[str | None, typer.Option("--job", help="Only this job.")]
FormatOption = Annotated[str, typer.Option("--format", help="table, csv or json.")]


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"


@app.command()
def maintain(no_wait: NoWaitOption = False, lake: LakeOption = None, conf: ConfOption = None) -> None:
    """Remove data past its retention, make many small files into few, and VACUUM files that nobody reads.

    Example: tracelake maintain --conf conf/tracelake.toml
    """
    with _command(lake, conf, no_wait) as settings:
        with log.progress("maintain") as progress:
            done = upkeep.maintain(settings, progress)
        _out.print(f"Tables: {done.files_before:,} files, now {done.files_after:,}")
        _out.print(f"VACUUM: {done.removed.files:,} files, {_size(done.removed.bytes)} removed")
        _out.print(
            f"Retention: {len(done.expired_jobs):,} jobs; {done.expired_rows:,} rows of tables and"
            f" {done.raw.files:,} files, {_size(done.raw.bytes)} of raw data removed"
        )


@app.command(name="delete-job")
def delete_job(
    job: Annotated[str, typer.Argument(help="Job to delete.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Leave the tables' files to readers at work; maintain removes them.")
    ] = False,
    no_wait: NoWaitOption = False,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Delete a job everywhere: raw data, tables, pages. It cannot be undone.

    Example: tracelake delete-job dlrm --yes
    """
    with _command(lake, conf, no_wait) as settings:
        if not yes and not typer.confirm(f"Delete job {job} from {settings.lake} for ever?", err=True):
            raise typer.Exit(1)
        with log.progress("delete-job") as progress:
            done = upkeep.delete_job(settings, job, keep_files=keep_files, progress=progress)
        _out.print(
            f"{job}: {done.rows:,} rows of tables, {done.raw.files:,} files of raw data ({_size(done.raw.bytes)})"
            f" and {len(done.pages)} pages deleted",
            markup=False,
        )
        if keep_files:
            _out.print("The tables' files that held it go with the first `tracelake maintain` after seven days.")
        else:
            _out.print(f"{done.tables.files:,} files of tables ({_size(done.tables.bytes)}) that held it deleted")
        for page in done.naming:
            log.warn("names it still", f"{page}; write it again")


@quarantine.command(name="list")
def list_(
    job: JobOption = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Only this reason code.")] = None,
    limit: Annotated[int, typer.Option(help="Most entries shown.", min=1)] = 1000,
    format_: FormatOption = "table",
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """List rows and stretches of input that were set aside.

    Example: tracelake quarantine list --job dlrm --reason zero_time
    """
    with _command(lake, conf) as settings:
        check_format(format_)
        names, rows = upkeep.quarantine_list(settings, job, reason, limit)
        shown = _GRID_COLUMNS if format_ == "table" else len(names)
        print_rows(names[:shown], [row[:shown] for row in rows], format_)
        if len(rows) == limit:
            log.warn("more there", f"these are the first {limit:,}; --limit shows more")


@quarantine.command()
def show(
    number: Annotated[int | None, typer.Argument(help="Number of the entry, as `list` shows it.")] = None,
    file: Annotated[str | None, typer.Option("--file", help="All entries of this file.")] = None,
    limit: Annotated[int, typer.Option(help="Most entries shown.", min=1)] = 20,
    format_: FormatOption = "table",
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Show an entry in full, with its bytes or row where the input still exists.

    Example: tracelake quarantine show 3
    """
    with _command(lake, conf) as settings:
        check_format(format_)
        found = upkeep.quarantine_show(settings, number, file, limit)
        if format_ == "table":
            for entry in found:  # no grid: it would cut long values short
                for name, value in entry.items():
                    _out.print(f"{name:12}  {'NULL' if value is None else value}", markup=False)
                _out.print()
        else:
            print_rows(list(found[0]), [tuple(entry.values()) for entry in found], format_)


@quarantine.command()
def retry(
    job: JobOption = None, no_wait: NoWaitOption = False, lake: LakeOption = None, conf: ConfOption = None
) -> None:
    """Hand windows with something in quarantine to the next run, after the remedy.

    Example: tracelake quarantine retry --job dlrm
    """
    with _command(lake, conf, no_wait) as settings:
        done = upkeep.quarantine_retry(settings, job)
        _out.print(f"{done.windows:,} windows are taken in again by the next `tracelake run`")
        if done.gone:
            log.warn("cannot be", f"{done.gone:,} more, since their raw data is gone; import them again")


@app.command()
def doctor(
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Start Spark and look into the tables.")] = True,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Check Java, Spark, jars and the lake; each line is ok, warn or fail with what to do. Exit code 1 on fail.

    Example: tracelake doctor --no-spark
    """
    from tracelake.doctor import examine

    with _command(lake, conf) as settings:
        colours = {"ok": "green", "warn": "yellow", "fail": "bold red"}
        has_failed = False
        for finding in examine(settings, spark=spark):
            has_failed |= finding.mark == "fail"
            _out.print(f"[{colours[finding.mark]}]{finding.mark:5}[/]{finding.name:14} ", end="")
            _out.print(finding.text, markup=False)
        if has_failed:
            raise typer.Exit(1)
