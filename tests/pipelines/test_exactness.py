"""Whatever fails on the way, the tables end up the same: faults at writes, kills, halves, several runs at once."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from checksums import Checksums, checksums
from pyspark.sql import SparkSession
from quick import CAUSES, MOST, QUICK_JVM, conf_without, run_without

from tracelake.pipelines.lake import Lake
from tracelake.pipelines.runner import RunResult
from tracelake.recorder.segments import SourceWriter
from tracelake.recorder.simulate import simulate_job
from tracelake.recorder.simulate.fleet import jobs
from tracelake.schemas.catalog import tables
from tracelake.schemas.manifest import raw_root
from tracelake.schemas.render.arrow import arrow_schema
from tracelake.schemas.render.rows import filled

DAYS = [dt.date(2026, 11, 20 + number) for number in range(5)]


def is_full(request: pytest.FixtureRequest) -> bool:
    return "full" in str(request.config.getoption("markexpr"))


Run = Callable[..., RunResult]


@pytest.fixture(scope="module")
def left_out(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Aggregates that no run here makes: more of them where time is short."""
    return CAUSES if is_full(request) else MOST


@pytest.fixture(scope="module")
def run(left_out: tuple[str, ...]) -> Run:
    return run_without(*left_out)


@pytest.fixture(scope="module")
def days(request: pytest.FixtureRequest) -> list[dt.date]:
    """Five days, or two where time is short."""
    return DAYS if is_full(request) else DAYS[:2]


@pytest.fixture(scope="module")
def raw(days: list[dt.date], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The raw data of those days, a small job each; the second one's steps are unmarked."""
    root = tmp_path_factory.mktemp("raw")
    for number, (day, job) in enumerate(zip(days, jobs(0.1), strict=False)):
        simulate_job(root, replace(job, has_markers=number != 1), seed=number, day=day)
    return root / "raw"


@pytest.fixture
def fresh(raw: Path, tmp_path: Path) -> Callable[[str], Lake]:
    def lake(name: str) -> Lake:
        shutil.copytree(raw, tmp_path / name / "raw")
        return Lake(tmp_path / name)

    return lake


@pytest.fixture(scope="module")
def clean(
    raw: Path, run: Run, left_out: tuple[str, ...], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Checksums:
    """What one run without any trouble makes of the raw data."""
    root = tmp_path_factory.mktemp("clean")
    shutil.copytree(raw, root / "raw")
    lake = Lake(root)
    done = run(lake, spark)
    found = checksums(lake, spark)
    assert done.incomplete is None
    assert {name for name, (rows, _) in found.items() if not rows} <= {
        "normalized.operators", "operations.quarantine", "operations.deliveries", "operations.pages",
        "aggregates.annotation_histogram", *left_out}  # fmt: skip
    return found


class Injected(RuntimeError):
    """A fault that the test made."""


class Faults:
    """Lets the n-th write fail: even ones before anything is written, odd ones after all of it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.count = 0, 0
        self._lock = threading.Lock()
        for name in ("replace", "append"):
            monkeypatch.setattr(Lake, name, self._failing(getattr(Lake, name)))

    def _failing(self, write: Callable[..., None]) -> Callable[..., None]:
        def attempt(*arguments: Any) -> None:
            with self._lock:
                self.count += 1
                number = self.count
            if number == self.at and number % 2 == 0:
                raise Injected(f"before write {number}")
            write(*arguments)
            if number == self.at:
                raise Injected(f"after write {number}")

        return attempt


def test_a_fault_at_any_write_leaves_what_the_next_run_mends(
    fresh: Callable[[str], Lake],
    clean: Checksums,
    run: Run,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Each run goes one fault further than the one before; every 10th write, or each with -m "full or not full"."""
    lake, faults = fresh("faults"), Faults(monkeypatch)
    every = 1 if is_full(request) else 10
    failed = 0
    while True:
        faults.at, faults.count = 1 + failed * every, 0
        try:
            run(lake, spark)
        except Injected:
            failed += 1
            continue
        break
    assert failed > (25 if every == 1 else 1)
    assert checksums(lake, spark) == clean
    statuses = [row["status"] for row in lake.read(spark, "operations.runs").orderBy("started_ns").collect()]
    assert statuses[-1] == "succeeded"
    assert run(lake, spark).sources == 0
    assert checksums(lake, spark) == clean


@pytest.mark.full
def test_two_halves_and_a_retake_make_the_same_tables(
    fresh: Callable[[str], Lake], clean: Checksums, run: Run, spark: SparkSession, days: list[dt.date]
) -> None:
    lake = fresh("halves")
    first = sorted(path.name for path in (lake.root / "raw/v1/manifest").iterdir())[: len(days) // 2]
    for day in first:
        run(lake, spark, day=day.removeprefix("day="))
    done = run(lake, spark)
    assert done.sources and len(done.jobs) == len(days) - len(first)
    assert checksums(lake, spark) == clean
    # A manifest that is written again with the same rows, as an import of the same file does.
    for path in (lake.root / "raw/v1/manifest").glob(f"{first[0]}/*/*.json"):
        path.write_text(path.read_text() + "\n")
    assert run(lake, spark).sources
    again = checksums(lake, spark)
    differing = {name for name in clean if again[name] != clean[name]}
    assert differing <= {"operations.files"}, "the ledger keeps the manifest's new hash"


def test_runs_at_once_neither_lose_nor_double_a_row(
    fresh: Callable[[str], Lake],
    clean: Checksums,
    run: Run,
    spark: SparkSession,
    days: list[dt.date],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Case 40: backfilled days at once, and a retry while the first of them is held in the middle of a write."""
    lake = fresh("at-once")
    held, go_on = threading.Event(), threading.Event()
    write = Lake.replace

    def held_once(*arguments: Any) -> None:
        if not held.is_set():
            held.set()
            assert go_on.wait(60)
        write(*arguments)

    monkeypatch.setattr(Lake, "replace", held_once)
    named = [day.isoformat() for day in days]
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(run, lake, spark, day=named[0])
        assert held.wait(60)
        others = [pool.submit(run, lake, spark, day=day) for day in [*named[1:], named[0]]]
        time.sleep(0.5)
        assert not any(other.done() for other in others), "the lake has one writer at a time"
        go_on.set()
        done: list[RunResult] = [future.result() for future in (first, *others)]
    taken = [len(result.jobs) for result in done]
    assert taken[0] == 1 and sorted(taken[1:]) == [0] + [1] * (len(days) - 1)
    assert checksums(lake, spark) == clean


def killed_run(lake: Lake, left_out: tuple[str, ...], tables_written: int) -> None:
    """A real `tracelake run`, killed as soon as that many tables exist."""
    conf = lake.root.with_suffix(".toml")
    conf.write_text(conf_without(*left_out))
    process = subprocess.Popen(
        [sys.executable, "-m", "tracelake", "run", "--lake", str(lake.root), "--conf", str(conf)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "SPARK_SUBMIT_OPTS": QUICK_JVM},
    )
    deadline = time.monotonic() + 240
    while len(list(lake.root.glob("tables/*/*/_delta_log"))) < tables_written:
        assert process.poll() is None, "the run ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # The whole group: the JVM is a child and would go on writing.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_three_kills_of_the_whole_process_cost_nothing(
    fresh: Callable[[str], Lake], clean: Checksums, run: Run, left_out: tuple[str, ...], spark: SparkSession
) -> None:
    lake = fresh("killed")
    for tables_written in (1, 6, 14):
        killed_run(lake, left_out, tables_written)
    run(lake, spark)
    assert checksums(lake, spark) == clean


def parts(root: Path) -> Iterator[Path]:
    """Case 39: a window of ten segments of 100 kernels each."""
    writer = SourceWriter(raw_root(root), "2026-11-29", "parts", "window")
    for part in range(10):
        numbers = [100 * part + i for i in range(100)]
        columns = {"event_id": numbers, "name": ["k"] * 100, "start_ns": [10**18 + 1_000 * n for n in numbers],
                   "duration_ns": [10] * 100, "correlation_id": [n + 1 for n in numbers]}  # fmt: skip
        writer.write("kernel", pa.table(columns))
    source = tables()["raw.source"]
    given = {"job_id": "parts", "source_id": "window", "phase": "close", "status": "complete", "rows_read_count": 1_000,
             "rows_stored_count": 1_000, "day": dt.date(2026, 11, 29)}  # fmt: skip
    row = dict(zip((c.name for c in source.columns), filled(source, given), strict=True))
    writer.write("source", pa.Table.from_pylist([row], arrow_schema(source)))
    manifest = writer.close("complete", attempt=0, rows={"read": 1_000, "stored": 1_000})
    for segment in manifest.segments:
        if segment.kind == "kernel":
            yield raw_root(root) / segment.path


def test_damaged_segments_are_named_and_the_run_is_no_clean_one(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    files = list(parts(tmp_path))
    files[4].write_bytes(files[4].read_bytes()[:200])
    files[7].write_bytes(b"")
    done = run(lake, spark)
    assert lake.read(spark, "normalized.kernels").count() == 800
    source = lake.read(spark, "normalized.sources").first()
    assert source is not None
    assert (source["status"], source["status_reason"]) == ("incomplete", "segment_lost")
    assert (source["rows_read"], source["rows_stored"], source["rows_quarantined"]) == (1_000, 800, 200)
    ended = lake.read(spark, "operations.runs").first()
    assert ended is not None and ended["status"] == "incomplete"
    assert ended["error"].startswith("9 of 11 segments could be used; not ")
    assert all(file.name in ended["error"] for file in (files[4], files[7]))
    assert done.rows["quarantined"] == 200
    aside = lake.read(spark, "operations.quarantine").select("file", "rows_count", "reason", "remedy").collect()
    assert {(Path(row["file"]).name, row["rows_count"]) for row in aside} == {
        (files[4].name, 100), (files[7].name, 100)}  # fmt: skip
    assert all(row["remedy"] for row in aside)
