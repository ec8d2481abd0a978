"""Commands: import traces, run the pipeline, write reports, ask with SQL."""

from __future__ import annotations

import csv
import datetime as dt
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from tracelake import __version__, commands, log
from tracelake.settings import Settings, load

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Batch analytics over a data lake of training profiles.",
)
_out = Console(highlight=False, soft_wrap=True)

LakeOption = Annotated[str | None, typer.Option("--lake", help="A folder or s3://bucket/prefix (default ./lake).")]
ConfOption = Annotated[Path | None, typer.Option("--conf", help="Settings file; see conf/tracelake.toml.")]
NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Leave where another command writes the lake.")]


@app.callback()
def _begin(ctx: typer.Context) -> None:
    try:
        log.begin(ctx.invoked_subcommand or "")
    except ValueError as error:
        log.error(str(error))
        raise typer.Exit(1) from None
    ctx.call_on_close(log.end)


@contextmanager
def _command(lake: str | None, conf: Path | None, no_wait: bool = False) -> Iterator[Settings]:
    """Settings for one command; what the user can mend becomes one line and exit code 1."""
    with log.faults():
        try:
            settings = load(conf, lake)
            log.at(settings.storage.name)
            yield replace(settings, wait_seconds=0) if no_wait else settings
        except commands.expected_errors() as error:
            log.error(_one_line(str(error)) or type(error).__name__)
            raise typer.Exit(1) from None


def _one_line(text: str) -> str:
    return " ".join(text.split())


@app.command()
def demo(lake: LakeOption = None, conf: ConfOption = None, seed: int = 7, scale: float = 1.0) -> None:
    """Simulate a small fleet with known faults, run everything, and say where the pages are.

    Example: tracelake demo --lake ./lake
    """
    with _command(lake, conf) as settings:
        with log.progress("demo") as progress:
            pages = commands.demo(settings, seed=seed, scale=scale, progress=progress)
        _out.print("[bold]Pages[/]")
        for job_id, page in pages:
            _out.print(f"  {job_id}  {page}")


@app.command(name="import")
def import_(
    paths: Annotated[
        list[str], typer.Argument(help="Trace files, folders or globs (.json, .json.gz), here or at s3://.")
    ],
    job: Annotated[str, typer.Option("--job", help="Job that the traces belong to.")],
    attempt: Annotated[int, typer.Option(help="Restart count of the job.", min=0)] = 0,
    node: Annotated[str | None, typer.Option(help="Node name, where the files do not say.")] = None,
    rank: Annotated[int | None, typer.Option(help="Rank, for a single file that does not say.", min=0)] = None,
    tag: Annotated[list[str] | None, typer.Option(help="key=value; may be given several times.")] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(help="key=value, such as project=search or instance_type=p5.48xlarge."),
    ] = None,
    operators: Annotated[bool, typer.Option(help="Keep framework operators, for precision.")] = True,
    spark_tasks: Annotated[bool, typer.Option("--spark", help="Spread the files over Spark tasks.")] = False,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Read PyTorch (Kineto) traces into the lake's raw data.

    Example: tracelake import traces/dlrm --job dlrm
    """
    with _command(lake, conf) as settings:
        options = commands.import_options(job, attempt, node, rank, tag or [], fact or [], operators)
        with log.progress("import") as progress:
            done, failed = commands.import_traces(settings, paths, options, spark=spark_tasks, progress=progress)
        for each in done:
            what = (
                "already in the lake" if each.duplicate else f"{each.rows_stored:,} of {each.rows_read:,} rows stored"
            )
            note = "" if each.status == "complete" else f" [yellow]({each.status})[/]"
            _out.print(f"{each.path}: {what}{note}")
        for _, reason in failed:
            log.error(_one_line(reason))
        if failed:
            log.warn("not imported", f"{len(failed)} of {len(failed) + len(done)} files")
            raise typer.Exit(1)


@app.command()
def run(
    job: Annotated[str | None, typer.Option("--job", help="Only this job.")] = None,
    day: Annotated[str | None, typer.Option("--day", help="Only windows that start on this UTC day.")] = None,
    no_wait: NoWaitOption = False,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Raw to normalized to aggregates, with checks; only what is new.

    Example: tracelake run --job dlrm
    """
    _process("run", lake, conf, no_wait, job, day)


@app.command()
def backfill(
    job: Annotated[str | None, typer.Option("--job", help="Only this job.")] = None,
    day: Annotated[str | None, typer.Option("--day", help="Only windows that start on this UTC day.")] = None,
    no_wait: NoWaitOption = False,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Make the tables again from raw data, with this version's definitions and conf's thresholds.

    Example: tracelake backfill --day 2026-11-20
    """
    _process("backfill", lake, conf, no_wait, job, day)


def _process(name: str, lake: str | None, conf: Path | None, no_wait: bool, job: str | None, day: str | None) -> None:
    with _command(lake, conf, no_wait) as settings:
        with log.progress(name) as progress:
            done = commands.run(settings, job_id=job, day=day, progress=progress, again=name == "backfill")
        if done.refused:
            log.warn(
                "left out",
                f"{done.refused:,} windows of jobs that retention has removed; `tracelake doctor` names them",
            )
        if not done.sources:
            _out.print("Nothing new." if name == "run" else "Nothing there.")
            return
        parts = " + ".join(f"{done.rows[each]:,} {each}" for each in commands.ROW_FATES)
        _out.print(f"{done.sources} windows of {len(done.jobs)} jobs: {done.rows['read']:,} rows read = {parts}")
        if done.incomplete:
            log.warn("incomplete", _one_line(done.incomplete))


@app.command()
def report(
    job: Annotated[str, typer.Argument(help="Job to report on, `fleet` or `index`.")],
    attempt: Annotated[int | None, typer.Option(help="Attempt; the latest by default.")] = None,
    day: Annotated[str | None, typer.Option("--day", help="UTC day of the fleet; the last with device time.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the page (default <lake>/reports).")] = None,
    no_wait: NoWaitOption = False,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Write the page of a job, of the fleet's day, or the list of jobs; what is new is processed first.

    Example: tracelake report dlrm
    """
    with _command(lake, conf, no_wait) as settings:
        started = time.monotonic()
        with log.progress("report") as progress:
            if job == "fleet":
                page, seconds = commands.fleet(settings, day=_day(day), out=out, progress=progress)
            elif job == "index":
                page, seconds = commands.index(settings, out=out, progress=progress)
            else:
                page, seconds = commands.report(settings, job, attempt=attempt, out=out, progress=progress)
        _say_page(page, seconds, started)


def _say_page(page: str, seconds: dict[str, float], started: float) -> None:
    _out.print(str(page))
    spent = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items())
    log.note("done", f"{time.monotonic() - started:.1f} s: {spent}")


@app.command()
def timeline(
    job: Annotated[str, typer.Argument(help="Job to show.")],
    step: Annotated[
        int | None, typer.Option(help="Number of the step; the worst outlier, else the median step, by default.")
    ] = None,
    from_ns: Annotated[int | None, typer.Option(help="Start, Unix time in nanoseconds, instead of a step.")] = None,
    to_ns: Annotated[int | None, typer.Option(help="End, likewise.")] = None,
    format_: Annotated[str, typer.Option("--format", help="html, or perfetto for ui.perfetto.dev.")] = "html",
    attempt: Annotated[int | None, typer.Option(help="Attempt; the latest by default.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the page (default <lake>/reports).")] = None,
    no_wait: NoWaitOption = False,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Write the timeline of one step of a job: launches, kernels, waits and annotations, event by event.

    Example: tracelake timeline dlrm --step 10
    """
    with _command(lake, conf, no_wait) as settings:
        if format_ not in ("html", "perfetto"):
            raise commands.UserError(f"--format {format_}: choose html or perfetto")
        if step is not None and (from_ns is not None or to_ns is not None):
            raise commands.UserError("--step and --from-ns or --to-ns exclude each other; give one of them")
        started = time.monotonic()
        stretch = commands.Stretch(attempt, step, from_ns, to_ns)
        with log.progress("timeline") as progress:
            page, seconds = commands.timeline(settings, job, stretch, format_=format_, out=out, progress=progress)
        _say_page(page, seconds, started)


def _day(given: str | None) -> str | None:
    """An ISO date. Raises UserError for anything else."""
    try:
        return dt.date.fromisoformat(given).isoformat() if given else None
    except ValueError as error:
        raise commands.UserError(f"--day {given}: write YYYY-MM-DD") from error


@app.command()
def jobs(lake: LakeOption = None, conf: ConfOption = None) -> None:
    """List the jobs of the lake.

    Example: tracelake jobs
    """
    with _command(lake, conf) as settings:
        names, rows = commands.sql(settings, commands.JOBS_QUERY)
        _print_grid(names, rows)


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="Spark SQL over the tables by their bare names.")],
    format_: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    limit: Annotated[int, typer.Option(help="Most rows shown.", min=1)] = 1000,
    lake: LakeOption = None,
    conf: ConfOption = None,
) -> None:
    """Ask the tables with Spark SQL.

    Example: tracelake sql "SELECT name, kernel_count FROM kernel_stats ORDER BY duration_sum_ns DESC LIMIT 5"
    """
    with _command(lake, conf) as settings:
        check_format(format_)
        names, rows = commands.sql(settings, query, limit=limit)
        print_rows(names, rows, format_)


def check_format(format_: str) -> None:
    """Raises UserError for a format that there is not."""
    if format_ not in ("table", "csv", "json"):
        raise commands.UserError(f"--format {format_}: choose table, csv or json")


def print_rows(names: list[str], rows: list[tuple[Any, ...]], format_: str) -> None:
    if format_ == "json":
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows], default=str))
    elif format_ == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        writer.writerows(rows)
    else:
        _print_grid(names, rows)


def _print_grid(names: list[str], rows: list[tuple[Any, ...]]) -> None:
    grid = Grid(*names)
    for row in rows:
        grid.add_row(*["NULL" if value is None else str(value) for value in row])
    _out.print(grid, markup=False)


@app.command()
def version() -> None:
    """Print the version."""
    _out.print(__version__)


# Their commands join `app` and use what stands above.
from tracelake import cli_metrics, cli_nightly, cli_publish, cli_serve, cli_upkeep  # noqa: E402, F401
