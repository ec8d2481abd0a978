"""What commands say on standard error: to people, or with TRACELAKE_LOG=json to machines, one JSON object per line."""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tracelake.recorder.redact import hide, secret_values

FORMATS = ("text", "json")
_MOST_LINES = 20
_LOG = logging.getLogger("tracelake")
_err = Console(stderr=True, highlight=False, soft_wrap=True)


class _Lines(logging.Handler):
    """A JSON object per line. A run's id is remembered from the run's start on."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self.known = {"command": command, "lake": "", "run_id": ""}
        self._secrets = secret_values(os.environ)

    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = getattr(record, "facts", {})
        self.known.update({name: facts[name] for name in self.known if name in facts})
        said = record.getMessage()
        if record.exc_info:
            said = f"{said}\n{logging.Formatter().formatException(record.exc_info)}"
        line = {
            "time": dt.datetime.fromtimestamp(record.created, dt.timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.name,
            **{name: value for name, value in self.known.items() if value},
            **facts,
            "text": "\n".join(hide(each, self._secrets) for each in said.splitlines()),
        }
        print(json.dumps(line, default=str), file=sys.stderr, flush=True)


def begin(command: str) -> None:
    """From here on as the environment says. Raises ValueError for a format that there is not."""
    end()
    given = os.environ.get("TRACELAKE_LOG", "text")
    if given not in FORMATS:
        raise ValueError(f"TRACELAKE_LOG={given}: choose {' or '.join(FORMATS)}")
    if given == "json":
        # Of other libraries, what they warn of.
        logging.getLogger().addHandler(_Lines(command))
        logging.captureWarnings(True)
        _LOG.setLevel(logging.INFO)


def end() -> None:
    """As before begin()."""
    if each := _lines():
        logging.getLogger().removeHandler(each)
        logging.captureWarnings(False)
        _LOG.setLevel(logging.NOTSET)


def _lines() -> _Lines | None:
    return next((each for each in logging.getLogger().handlers if isinstance(each, _Lines)), None)


def at(lake: str) -> None:
    """The lake of all lines that follow."""
    if lines := _lines():
        lines.known["lake"] = lake


def error(text: str) -> None:
    if _lines():
        _LOG.error(text, extra={"facts": {"event": "error"}})
    else:
        _err.print(f"[bold red]tracelake:[/] {escape(text)}")


def warn(what: str, text: str) -> None:
    if _lines():
        _LOG.warning(text, extra={"facts": {"event": what}})
    else:
        _err.print(f"[yellow]{what}:[/] {escape(text)}")


def warn_each(what: str, texts: Sequence[str]) -> None:
    """The first ones, and how many more there are."""
    for text in texts[:_MOST_LINES]:
        warn(what, text)
    if len(texts) > _MOST_LINES:
        warn(what, f"{len(texts) - _MOST_LINES:,} more")


def note(what: str, text: str) -> None:
    if _lines():
        _LOG.info(text, extra={"facts": {"event": what}})
    else:
        _err.print(f"[dim]{escape(text)}[/]")


@contextmanager
def faults() -> Iterator[None]:
    """A fault of ours: a traceback on standard error, in JSON as one line; exit code 1 either way."""
    try:
        yield
    except Exception as error:
        if isinstance(error, typer.Exit | typer.Abort) or not _lines():
            raise
        _LOG.critical("a fault of tracelake's own", exc_info=True, extra={"facts": {"event": "fault"}})
        raise SystemExit(1) from None


@contextmanager
def progress(title: str) -> Iterator[Callable[[str, float], None]]:
    """A bar where a terminal is, a line for each step in JSON, else plain silence."""
    if _lines():
        yield _steps()
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[now]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal) as bar:
        task = bar.add_task(title, total=1.0, now="")
        yield lambda now, share: bar.update(task, completed=share, now=now)


def _steps() -> Callable[[str, float], None]:
    def step(now: str, share: float) -> None:
        _LOG.info(now, extra={"facts": {"event": "progress", "share": round(share, 4)}})

    return step
