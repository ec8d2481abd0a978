"""The lake's command line as a task starts it: what the connection says, the process, what it printed.

No Airflow here. Extra of the connection `tracelake`, as JSON:

    command  program of the lake's environment, such as "/opt/lake/bin/tracelake"
    submit   instead of it for what starts Spark: "spark-submit --master … conf/submit.py"
    lake     folder or s3://bucket/prefix; what conf says by default
    conf     settings file of the lake
    inbox    folder with traces to import, one folder for each job: <inbox>/<job>/….json
    env      environment variables, such as {"JAVA_HOME": "/opt/java"}
    notify   whom to tell of failures and findings: see notify.py
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

CONNECTION = "tracelake"
_TOLD_LINES = 15
_SECONDS_TO_END = 20
_TELLING = ("tracelake:", 'Exception in thread "main"', "Error:")
"""How a line begins that says why, best first: the command's own, then Java's (an unknown master), then others'."""
_NOT_OURS = ("AIRFLOW", "_AIRFLOW", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Variables that the lake's environment must not see: Airflow's secrets, and where Airflow's Python looks."""


class Unconfigured(ValueError):
    """The connection lacks something or is wrong; the text says what to set."""


class CommandFailed(RuntimeError):
    """The command ended with an error; the text opens with the one line that says why."""


@dataclass(frozen=True)
class Lake:
    """The connection's extra."""

    command: tuple[str, ...] = ()
    submit: tuple[str, ...] = ()
    lake: str = ""
    conf: str = ""
    inbox: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    notify: tuple[Mapping[str, Any], ...] = ()

    @staticmethod
    def from_extra(extra: Mapping[str, Any]) -> Lake:
        """Raises Unconfigured."""
        known = Lake.__dataclass_fields__
        if unknown := sorted(set(extra) - set(known)):
            raise Unconfigured(_set(f"its extra has {unknown[0]}, and may have {', '.join(known)}"))
        given = {name: value for name, value in extra.items() if value}
        for name in ("command", "submit"):
            if name in given:
                given[name] = _words(name, given[name])
        for name in ("lake", "conf", "inbox"):
            if not isinstance(given.get(name, ""), str):
                raise Unconfigured(_set(f"{name} is not text"))
        if not isinstance(given.get("env", {}), dict) or not isinstance(given.get("notify", []), list):
            raise Unconfigured(_set("env is an object of variables, notify is a list of objects with kind"))
        given["notify"] = tuple(given.get("notify", ()))
        return Lake(**given)

    def argv(self, command: Sequence[str], arguments: Sequence[str] = (), *, spark: bool = True) -> list[str]:
        """The whole command; `arguments` are never taken for options. Raises Unconfigured without a program."""
        prefix = self.submit if spark and self.submit else self.command or self.submit
        if not prefix:
            raise Unconfigured(_set('its extra lacks command, such as {"command": "/opt/lake/bin/tracelake"}'))
        place = [*(["--lake", self.lake] if self.lake else []), *(["--conf", self.conf] if self.conf else [])]
        return [*prefix, *filter(None, command), *place, *(["--", *arguments] if arguments else [])]


def _words(name: str, given: Any) -> tuple[str, ...]:
    words = shlex.split(given) if isinstance(given, str) else given
    if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
        raise Unconfigured(_set(f"{name} is neither text nor a list of words"))
    return tuple(words)


def _set(what: str) -> str:
    return f"connection {CONNECTION}: {what}; see docs/airflow.md"


class Running:
    """One command with all that it starts, which ends with it."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Raises Unconfigured where there is no such program."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)}
        try:
            self._process = subprocess.Popen(
                argv, env={**kept, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                text=True, errors="replace", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Unconfigured(_set(f"cannot start {argv[0]} ({error.strerror}); set command or submit")) from error
        self._name = " ".join(argv[:1] + [each for each in argv[1:] if not each.startswith("--conf")][:4])

    def finish(self, say: Callable[[str], None]) -> dict[str, Any] | None:
        """Wait; gives the last line of JSON that it printed. Raises CommandFailed."""
        last: deque[str] = deque(maxlen=_TOLD_LINES)
        telling: dict[str, str] = {}
        summary = None
        assert self._process.stdout
        try:
            for line in self._process.stdout:
                say(line.rstrip())
                read = _json(line)
                if read is not None and "level" in read:
                    # A line of TRACELAKE_LOG=json.
                    line = f"{_TELLING[0] if read['level'] == 'error' else ''} {read.get('text')}"
                if read is not None and "level" not in read:
                    summary = read
                else:
                    last.append(line.rstrip())
                    telling |= {start: line for start in _TELLING if line.startswith(start)}
            code = self._process.wait()
        finally:
            self.stop()
        if code:
            why = next((telling[start].removeprefix(start) for start in _TELLING if start in telling), "")
            raise CommandFailed(_told(self._name, code, why.strip(), [line for line in last if line]))
        return summary

    def stop(self) -> None:
        """End it and what it started, Java first of all."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_SECONDS_TO_END)
        if self._process.stdout:
            self._process.stdout.close()


def _json(line: str) -> dict[str, Any] | None:
    with suppress(ValueError):
        read = json.loads(line) if line.startswith("{") else None
        return read if isinstance(read, dict) else None
    return None


def _told(name: str, code: int, why: str, last: Sequence[str]) -> str:
    """The line that says why, then the last ones."""
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    first = f"{name} {ended}: {why or (last or ['it printed nothing'])[-1]}"
    return "\n".join([first, *(last if len(last) > 1 else ())])
