"""Great Expectations over metrics rows, in a process of its own.

Importing it takes seconds and hundreds of megabytes: a process that starts with the run has loaded it before the first
rows are there, and leaves nothing behind in the one that runs Spark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

_ROW = "row"


class ValidationFailed(RuntimeError):
    """Great Expectations gave no answer; the text says why. Nothing that it was asked has passed."""


@dataclass(frozen=True)
class Validated:
    """What became of one expectation: the rows, by number, that break it, or what it raised."""

    broken: frozenset[int]
    error: str | None = None


@dataclass(frozen=True)
class Asked:
    """A suite, and the metrics rows of a table that it is about: numbers by the expectations' columns."""

    suite: Sequence[Mapping[str, Any]]
    rows: Sequence[Mapping[str, float | None]]


class Validator:
    """The process. Use it as a context manager; it ends with its block."""

    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path, "GX_ANALYTICS_ENABLED": "False"},
        )

    def __enter__(self) -> Validator:
        return self

    def __exit__(self, *_: object) -> None:
        with self._errors:
            self._process.kill()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(BrokenPipeError):  # a question that it did not live to read
                    if pipe:
                        pipe.close()
            self._process.wait()

    def validate(self, tables: Mapping[str, Asked]) -> dict[str, dict[str, Validated]]:
        """Outcomes by table and check. Raises ValidationFailed."""
        asked = {name: {"suite": list(each.suite), "rows": list(each.rows)} for name, each in tables.items()}
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps(asked).encode() + b"\n")
            stdin.flush()
            answer = stdout.readline()
        except OSError as error:
            raise ValidationFailed(self._why(str(error))) from error
        if not answer:
            raise ValidationFailed(self._why("it ended without an answer"))
        return {
            name: {check: Validated(frozenset(found["broken"]), found["error"]) for check, found in each.items()}
            for name, each in json.loads(answer).items()
        }

    def _why(self, otherwise: str) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"Great Expectations: {lines[-1] if lines else otherwise}"


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer each line of requests with one line, until there are no more."""
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]
    whole = (
        context.data_sources.add_pandas("metrics")
        .add_dataframe_asset("rows")
        .add_batch_definition_whole_dataframe("all")
    )
    for line in requests:
        asked = json.loads(line)
        print(
            json.dumps({name: _validated(whole, name, **each) for name, each in asked.items()}),
            file=answers,
            flush=True,
        )


def _validated(whole: Any, name: str, suite: list[dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, Any]:
    import great_expectations as gx
    import pandas as pd  # type: ignore[import-untyped]

    columns = [each["kwargs"]["column"] for each in suite]
    frame = pd.DataFrame([[row.get(column) for column in columns] for row in rows], columns=columns, dtype="float64")
    frame[_ROW] = range(len(rows))
    batch = whole.get_batch({"dataframe": frame})
    expectations = gx.ExpectationSuite(name=name, expectations=suite)
    done = batch.validate(expectations, result_format="BOOLEAN_ONLY")
    if not done.success:
        # Which rows break them is asked only then: it takes twice as long.
        asked = {"result_format": "COMPLETE", "unexpected_index_column_names": [_ROW]}
        done = batch.validate(expectations, result_format=asked)
    return {each["expectation_config"]["meta"]["check"]: _outcome(each) for each in done.to_json_dict()["results"]}


def _outcome(result: dict[str, Any]) -> dict[str, Any]:
    broken = [row[_ROW] for row in result["result"].get("unexpected_index_list") or ()]
    error = _raised(result["exception_info"])
    if not result["success"] and not broken and not error:
        error = "it failed and named no row"
    return {"broken": broken, "error": error}


def _raised(info: Mapping[str, Any]) -> str | None:
    """The message of an exception; it stands at the top or below the metric that raised it."""
    for each in (info, *(value for value in info.values() if isinstance(value, dict))):
        if each.get("raised_exception"):
            return str(each.get("exception_message") or "it raised")[:500]
    return None


if __name__ == "__main__":
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the library prints is no answer
    serve(sys.stdin, answers)
