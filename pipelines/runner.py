"""Raw to normalized to aggregates: only what is new, each table replaced where its sources or jobs are."""

from __future__ import annotations

import importlib
import inspect
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tracelake.pipelines import checks, verdicts
from tracelake.pipelines.intake import Intake, Pending, Window, pending
from tracelake.pipelines.lake import Lake, conform, one_of
from tracelake.pipelines.ledger import failed_rows, file_rows, frame, quarantine_rows, run_row
from tracelake.pipelines.measures import RAISED, by_window
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters
from tracelake.pipelines.validation import Validator
from tracelake.schemas.catalog import computed, in_order, table, tables
from tracelake.schemas.model import Table

_BATCH_BYTES = 2 << 30
_BATCH_SOURCES = 500
_LOG = logging.getLogger("tracelake.run")
_AT_ONCE = 3
"""Tables written at a time: a Delta commit is mostly waiting."""

Progress = Callable[[str, float], None]
"""Called with the table just written and the share of the run that is done."""


@dataclass
class RunResult:
    """What a run did; the same facts stand in operations.runs."""

    run_id: str
    jobs: tuple[str, ...] = ()
    sources: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    checks: Counter[str] = field(default_factory=Counter)
    """Checks by outcome, over the jobs of each batch."""
    refused: int = 0
    """New windows left out, since retention has removed their job in part."""
    segments: int = 0
    broken: list[str] = field(default_factory=list)
    """Segments that could not be used; their rows are in quarantine, and the run is `incomplete`."""

    @property
    def incomplete(self) -> str | None:
        """What is missing, in words; None where nothing is."""
        if not self.broken:
            return None
        named = ", ".join(self.broken[:5]) + (", …" if len(self.broken) > 5 else "")
        return f"{self.segments - len(self.broken)} of {self.segments} segments could be used; not {named}"


def run(
    lake: Lake,
    spark: SparkSession,
    *,
    job_id: str | None = None,
    day: str | None = None,
    again: bool = False,
    command: str = "run",
    parameters: Parameters = DEFAULT,
    progress: Progress = lambda name, share: None,
) -> RunResult:
    """Take in every window that the `files` ledger lacks, of one job or day where given; all of them, `again`.

    Rerun, retry and two runs at once end in the same tables: a window's rows are replaced as a whole, its job's
    aggregates are computed again, and `files` marks it done last. Raises what failed, after a row in `runs`.
    """
    started = time.time_ns()
    done = RunResult(run_id=f"{started:020d}-{uuid.uuid4().hex[:8]}")
    _LOG.info("run begins", extra={"facts": {"event": "run", "run_id": done.run_id}})
    with lake.lease():
        try:
            _run(lake, spark, done, pending(lake, spark, job_id=job_id, day=day, again=again), parameters, progress)
        except Exception as error:
            _record(lake, spark, done, command, started, error)
            raise
        _record(lake, spark, done, command, started, None)
    return done


def _run(
    lake: Lake,
    spark: SparkSession,
    done: RunResult,
    found: Pending,
    parameters: Parameters,
    progress: Progress,
) -> None:
    windows, done.refused = found.windows, len(found.refused)
    totals = dict.fromkeys(("read", "stored", "quarantined", "deduplicated", "skipped"), 0)
    for row in _take_in(lake, spark, windows, done, parameters, progress) if windows else ():
        for name in totals:
            totals[name] += row[f"rows_{name}"]
    done.jobs = tuple(sorted({window.manifest.job_id for window in windows}))
    done.sources, done.rows = len(windows), totals


def _take_in(
    lake: Lake,
    spark: SparkSession,
    windows: Sequence[Window],
    done: RunResult,
    parameters: Parameters,
    progress: Progress,
) -> Iterator[dict[str, Any]]:
    """Take windows through the layers, batch by batch; gives their rows of operations.files."""
    batches = list(_batches(windows))
    with Validator() as validator:
        for number, batch in enumerate(batches):
            taken = _Batch(lake, spark, batch, done, parameters, _scaled(progress, number, len(batches)))
            taken.normalize()
            taken.aggregate()
            taken.check(validator)
            yield from taken.mark_done()


def _scaled(progress: Progress, number: int, count: int) -> Progress:
    return lambda name, share: progress(name, (number + share) / count)


def _batches(windows: Sequence[Window]) -> Iterable[list[Window]]:
    batch: list[Window] = []
    size = 0
    for window in windows:
        if batch and (size + window.bytes > _BATCH_BYTES or len(batch) >= _BATCH_SOURCES):
            yield batch
            batch, size = [], 0
        batch.append(window)
        size += window.bytes
    if batch:
        yield batch


class _Batch:
    """One batch of windows on its way through the layers."""

    def __init__(
        self,
        lake: Lake,
        spark: SparkSession,
        windows: list[Window],
        done: RunResult,
        parameters: Parameters,
        progress: Progress,
    ) -> None:
        self.lake, self.spark, self.windows, self.done = lake, spark, windows, done
        self.parameters, self.progress = parameters, progress
        self.intake = Intake(lake, spark, windows)
        self.jobs = sorted({window.manifest.job_id for window in windows})
        self._written = 0
        self._read: dict[tuple[str, str], DataFrame] = {}
        self._raised: dict[str, dict[str, str]] = {}

    @cached_property
    def where_sources(self) -> str:
        """The rows of this batch's windows and of those that they supersede."""
        ids = [w.manifest.source_id for w in self.windows] + [s for w in self.windows for s in w.manifest.supersedes]
        return f"{one_of('job_id', self.jobs)} AND {one_of('source_id', ids)}"

    @cached_property
    def where_jobs(self) -> str:
        return one_of("job_id", self.jobs)

    def normalize(self) -> None:
        started = time.monotonic()
        aside = quarantine_rows(self.intake, self.done.run_id)
        # Rows that broke a check of a table about jobs are found again with the whole job.
        about_jobs = [each.name for each in computed().values() if not by_window(each)]
        of_jobs = f"{self.where_jobs} AND {one_of('kind', about_jobs)}"
        self._write(table("operations.quarantine"), aside, f"({self.where_sources}) OR ({of_jobs})")
        self.done.segments += sum(len(window.manifest.segments) for window in self.windows)
        self.done.broken += [each.segment.path for each in self.intake.broken]
        self._levels(list(tables("normalized")))
        self._spent("normalize", started)

    def aggregate(self) -> None:
        started = time.monotonic()
        self._levels([name for name in tables("aggregates") if name not in self.parameters.left_out_tables])
        self._spent("aggregate", started)

    def check(self, validator: Validator) -> None:
        """Check all that the batch's jobs have in the tables by now, whichever run or batch brought it."""
        started = time.monotonic()
        self.done.checks += verdicts.check(
            self.lake, self.spark, self.jobs, stored=lambda declared: self._stored(declared.name, self.where_jobs),
            raised=self._raised, validator=validator, parameters=self.parameters, run_id=self.done.run_id,
        )  # fmt: skip
        self._step("operations.checks")
        self._spent("check", started)

    def _spent(self, stage: str, started: float) -> None:
        self.done.seconds[stage] = self.done.seconds.get(stage, 0) + time.monotonic() - started

    def mark_done(self) -> list[dict[str, Any]]:
        """Write the `files` rows, last: what is not marked is taken in again."""
        declared = table("operations.files")
        rows = file_rows(self.lake, self.spark, self.windows, self.done.run_id)
        self.lake.replace(conform(frame(self.spark, rows, declared), declared), declared, self.where_sources)
        return rows

    def _levels(self, names: list[str]) -> None:
        """Write tables as soon as those that they read are written, a few at a time."""
        ordered = in_order(tuple(names))
        waiting, written = list(ordered), set[str]()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while waiting:
                ready = [n for n in waiting if not (set(table(n).reads) & set(ordered)) - written]
                for name in pool.map(self._one, ready):
                    written.add(name)
                waiting = [name for name in waiting if name not in written]

    def _one(self, name: str) -> str:
        self._write(table(name), self._transformed(table(name)), self._where(table(name)))
        return name

    def _where(self, declared: Table) -> str:
        return self.where_sources if by_window(declared) else self.where_jobs

    def _transformed(self, declared: Table) -> DataFrame:
        module = importlib.import_module(f"tracelake.pipelines.{declared.name}")
        function = getattr(module, declared.short_name)
        inputs: dict[str, Any] = {read.partition(".")[2]: self._input(declared, read) for read in declared.reads}
        if "parameters" in inspect.signature(function).parameters:
            inputs["parameters"] = self.parameters
        result: DataFrame = function(**inputs)
        return result

    def _input(self, declared: Table, read: str) -> DataFrame:
        """What a table reads: of its batch's windows, or of its jobs where it is about jobs."""
        layer, _, name = read.partition(".")
        if layer == "raw":
            return self.intake.raw(name) if by_window(declared) else self.intake.raw_of_jobs(name)
        return self._stored(read, self._where(declared))

    def _stored(self, name: str, where: str) -> DataFrame:
        """Rows of a table of the lake; one frame per batch, for opening a table costs more than reading a small one."""
        key = (name, where)
        if key not in self._read:
            self._read[key] = self.lake.rows_now(self.spark, name, where)
        return self._read[key]

    def _write(self, declared: Table, rows: DataFrame, where: str) -> None:
        conformed = conform(rows, declared)
        if self._replace(declared, conformed, where):
            aside = failed_rows(conformed, declared, self.done.run_id, self._raised.get(declared.name, {}))
            self.lake.append(conform(aside, table("operations.quarantine")), table("operations.quarantine"))
        self._step(declared.name)

    def _step(self, name: str) -> None:
        self._written += 1
        self.progress(name, self._written / (len(computed()) + 2))

    def _replace(self, declared: Table, rows: DataFrame, where: str) -> int:
        """Write the rows that hold; gives the number of those that do not. Checks that raise are left out and noted."""
        try:
            holding, observation = checks.observed(rows, declared)
            self.lake.replace(holding, declared, where)
        except RAISED:
            self._raised[declared.name] = checks.raising(rows, declared)
            if not self._raised[declared.name]:
                raise
            holding, observation = checks.observed(rows, declared, self._raised[declared.name])
            self.lake.replace(holding, declared, where)
        return int(observation.get["failing"])


def _record(
    lake: Lake, spark: SparkSession, done: RunResult, command: str, started: int, error: Exception | None
) -> None:
    declared = table("operations.runs")
    row = run_row(
        run_id=done.run_id,
        command=command,
        error=error,
        incomplete=done.incomplete,
        started_ns=started,
        jobs=done.jobs,
        sources=done.sources,
        rows=done.rows,
        seconds=done.seconds,
        outcomes=done.checks,
        versions={"tracelake": version("tracelake"), "spark": spark.version, "metric_version": str(METRIC_VERSION)},
    )
    lake.replace(conform(frame(spark, [row], declared), declared), declared, one_of("run_id", [done.run_id]))
