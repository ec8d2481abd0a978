"""Raw to normalized to aggregates: only what is new, each table replaced where its sources or jobs are."""

from __future__ import annotations

import importlib
import inspect
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tracelake.pipelines import checks
from tracelake.pipelines.intake import Intake, Window, pending
from tracelake.pipelines.lake import Lake, conform, one_of
from tracelake.pipelines.ledger import failed_rows, file_rows, frame, quarantine_rows, run_row
from tracelake.pipelines.parameters import DEFAULT, METRIC_VERSION, Parameters
from tracelake.schemas.catalog import in_order, table, tables
from tracelake.schemas.model import Table

_BATCH_BYTES = 2 << 30
_BATCH_SOURCES = 500
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
    checked: list[checks.CheckedTable] = field(default_factory=list)
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
    command: str = "run",
    parameters: Parameters = DEFAULT,
    progress: Progress = lambda name, share: None,
) -> RunResult:
    """Take in every window that the `files` ledger lacks, of one job or day where given.

    Rerun, retry and two runs at once end in the same tables: a window's rows are replaced as a whole, its job's
    aggregates are computed again, and `files` marks it done last. Raises what failed, after a row in `runs`.
    """
    started = time.time_ns()
    done = RunResult(run_id=f"{started:020d}-{uuid.uuid4().hex[:8]}")
    with lake.lease():
        try:
            _run(lake, spark, done, job_id, day, parameters, progress)
        except Exception as error:
            _record(lake, spark, done, command, started, error)
            raise
        _record(lake, spark, done, command, started, None)
    return done


def _run(
    lake: Lake,
    spark: SparkSession,
    done: RunResult,
    job_id: str | None,
    day: str | None,
    parameters: Parameters,
    progress: Progress,
) -> None:
    windows = pending(lake, spark, job_id=job_id, day=day)
    batches = list(_batches(windows))
    totals = dict.fromkeys(("read", "stored", "quarantined", "deduplicated", "skipped"), 0)
    for number, batch in enumerate(batches):
        taken = _Batch(lake, spark, batch, done, parameters, _scaled(progress, number, len(batches)))
        taken.normalize()
        taken.aggregate()
        for row in taken.mark_done():
            for name in totals:
                totals[name] += row[f"rows_{name}"]
    done.jobs = tuple(sorted({window.manifest.job_id for window in windows}))
    done.sources, done.rows = len(windows), totals


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
        # Rows that broke a check of an aggregate name a job and no window.
        of_jobs = f"{self.where_jobs} AND source_id = ''"
        self._write(table("operations.quarantine"), aside, f"({self.where_sources}) OR ({of_jobs})")
        self.done.segments += sum(len(window.manifest.segments) for window in self.windows)
        self.done.broken += [each.segment.path for each in self.intake.broken]
        self._levels(list(tables("normalized")))
        self.done.seconds["normalize"] = self.done.seconds.get("normalize", 0) + time.monotonic() - started

    def aggregate(self) -> None:
        started = time.monotonic()
        self._levels(list(tables("aggregates")))
        self.done.seconds["aggregate"] = self.done.seconds.get("aggregate", 0) + time.monotonic() - started

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
        declared = table(name)
        self._write(declared, self._transformed(declared), self._where(declared))
        return name

    def _where(self, declared: Table) -> str:
        return self.where_sources if _per_window(declared) else self.where_jobs

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
            return self.intake.raw(name) if _per_window(declared) else self.intake.raw_of_jobs(name)
        # One frame per table and batch: opening a Delta table costs more than reading a small one.
        key = (read, self._where(declared))
        if key not in self._read:
            self._read[key] = self.lake.read(self.spark, read).filter(key[1])
        return self._read[key]

    def _write(self, declared: Table, rows: DataFrame, where: str) -> None:
        holding, observation = checks.observed(conform(rows, declared), declared)
        self.lake.replace(holding, declared, where)
        checked = checks.result(declared, observation)
        self.done.checked.append(checked)
        if checked.failed:
            aside = failed_rows(conform(rows, declared), declared, self.done.run_id)
            self.lake.append(conform(aside, table("operations.quarantine")), table("operations.quarantine"))
        self._written += 1
        self.progress(declared.name, self._written / (len(tables("normalized")) + len(tables("aggregates")) + 1))


def _per_window(declared: Table) -> bool:
    return declared.layer == "normalized" and "source_id" in declared.key


def _record(
    lake: Lake, spark: SparkSession, done: RunResult, command: str, started: int, error: Exception | None
) -> None:
    declared = table("operations.runs")
    outcomes: dict[str, int] = {}
    for checked in done.checked:
        outcomes[checked.outcome] = outcomes.get(checked.outcome, 0) + checked.checks
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
        outcomes=outcomes,
        versions={"tracelake": version("tracelake"), "spark": spark.version, "metric_version": str(METRIC_VERSION)},
    )
    lake.replace(conform(frame(spark, [row], declared), declared), declared, one_of("run_id", [done.run_id]))
