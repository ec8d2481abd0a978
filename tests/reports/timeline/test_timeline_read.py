"""Timelines of real lakes: the right step, every event of it once, and the same sums when most of them are merged."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chromium import BINARY, Chromium
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from tracelake.cli import app
from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth
from tracelake.reports.data import UnknownJobError
from tracelake.reports.timeline.choose import NothingToShowError
from tracelake.reports.timeline.data import Rows
from tracelake.reports.timeline.read import timeline_rows
from tracelake.schemas.aggregates import outlier_steps

RUNNER = CliRunner()
Read = Callable[..., Rows]


@pytest.fixture(scope="module")
def job(small_fleet: tuple[Lake, Truth]) -> str:
    return small_fleet[1].job("slow_step").job_id


@pytest.fixture(scope="module")
def read(spark: SparkSession, small_fleet: tuple[Lake, Truth], job: str) -> Read:
    small_fleet[0].register_tables(spark)

    def rows(**asked: Any) -> Rows:
        return timeline_rows(lambda text: [r.asDict(recursive=True) for r in spark.sql(text).collect()], job, **asked)

    return rows


def test_the_default_is_the_median_step(spark: SparkSession, read: Read, job: str) -> None:
    """Of a job too short for outliers, on the slowest rank of each step."""
    slowest: dict[int, tuple[int, int]] = {}
    for row in (
        spark.table("aggregates.step_ledger").filter((F.col("job_id") == job) & (F.col("status") != "cut")).collect()
    ):
        known = slowest.get(row["step_occurrence"], (0, 0))
        slowest[row["step_occurrence"]] = max(known, (row["duration_ns"], row["step_index"]))
    in_order = sorted((length, occurrence, index) for occurrence, (length, index) in slowest.items())
    _, _, index = in_order[(len(in_order) + 1) // 2 - 1]
    rows = read()
    assert rows.window.title.endswith(f" {index}")
    assert "The median step" in rows.window.why
    mark = next(m for m in rows.marks if m.label == rows.window.title)
    assert rows.window.start_ns < mark.start_ns < mark.end_ns < rows.window.end_ns


def test_windows_are_on_one_clock_where_theirs_is_known(
    spark: SparkSession, small_fleet: tuple[Lake, Truth], read: Read
) -> None:
    """Two nodes; windows of the reference's host have an offset and no drift."""
    job = small_fleet[1].job("killed_process").job_id
    aligned = spark.table("aggregates.clock_alignment").filter(F.col("job_id") == job).collect()
    known = {row["source_id"]: row["offset_ns"] is not None for row in aligned}
    sources = timeline_rows(lambda text: [r.asDict(recursive=True) for r in spark.sql(text).collect()], job).sources
    assert len({source.node_id for source in sources}) == 2
    assert {s.source_id: s.ahead_ns is not None for s in sources}.items() <= known.items()
    assert any(known.values())


def test_the_worst_outlier_comes_before_the_median(spark: SparkSession, rows: Any, job: str, read: Read) -> None:
    title = read(step=3).window.title
    name = title.rpartition(" ")[0]
    steps = spark.table("aggregates.step_ledger").filter((F.col("job_id") == job) & (F.col("step_index") == 3))
    occurrence = steps.collect()[0]["step_occurrence"]
    known = {"job_id": job, "step_name": name, "step_index": 3, "step_occurrence": occurrence, "kind": "slow"}
    slow = {**known, "duration_ns": 300, "median_ns": 100, "excess_ns": 200, "cause": "data_loading", "guilty_rank": 5}
    less = {**slow, "step_index": 4, "step_occurrence": occurrence + 1, "excess_ns": 100}
    rows(outlier_steps.TABLE, slow, less).createOrReplaceTempView("made_outliers")

    def query(text: str) -> list[dict[str, Any]]:
        made = spark.sql(text.replace("aggregates.outlier_steps", "made_outliers"))
        return [r.asDict(recursive=True) for r in made.collect()]

    found = timeline_rows(query, job)
    assert found.window.title == title
    assert found.window.focus_rank == 5 == found.sources[0].rank
    assert "3 times the usual 100\u00a0ns; cause: data loading" in found.window.why
    assert [(m.kind, m.say) for m in found.marks if m.label == title] == [("slow", "data loading, rank 5")]


def test_every_event_of_the_stretch_comes_once(spark: SparkSession, read: Read, job: str) -> None:
    rows = read()
    ahead = {s.source_id: s.ahead_ns or 0 for s in rows.sources}
    for name, kinds, end in (
        ("kernels", ("compute", "communication"), "effective_end_ns"),
        ("memops", ("memory",), "end_ns"),
        ("launches", ("launch",), "end_ns"),
    ):
        stored = spark.table(f"normalized.{name}").filter(F.col("job_id") == job).collect()
        low, high = rows.window.start_ns, rows.window.end_ns
        expected = sorted(
            (r["source_id"], r["start_ns"] - ahead[r["source_id"]], r[end] - ahead[r["source_id"]], r["launch_id"])
            for r in stored
            if r["start_ns"] - ahead[r["source_id"]] < high and r[end] - ahead[r["source_id"]] >= low
        )
        found = sorted((e.source_id, e.start_ns, e.end_ns, e.launch_id) for e in rows.events if e.kind in kinds)
        assert found == expected, name
        assert found
    assert {e.kind for e in rows.events} >= {"step", "annotation"}
    numbered = spark.table("normalized.collectives").filter((F.col("job_id") == job) & F.col("sequence").isNotNull())
    assert any(e.collective for e in rows.events) == (numbered.count() > 0)
    assert not rows.merged


def test_merged_events_keep_their_number_and_their_time(read: Read) -> None:
    whole, cut = read(), read(most=500)
    assert len(cut.events) <= 500
    assert cut.event_count == whole.event_count
    assert set(cut.events) <= set(whole.events)

    def busy(rows: Rows) -> int:
        return sum(e.end_ns - e.start_ns for e in rows.events) + sum(m.busy_ns for m in rows.merged)

    assert busy(cut) == busy(whole)
    shortest = min(e.end_ns - e.start_ns for e in cut.events if e.kind in ("compute", "communication"))
    left_out = set(whole.events) - set(cut.events)
    streams = {(e.device_id, e.stream_id) for e in cut.events if e.device_id}
    assert streams == {(e.device_id, e.stream_id) for e in whole.events if e.device_id}, "each track keeps some"
    assert shortest >= min(e.end_ns - e.start_ns for e in left_out)


def test_a_step_by_its_number_and_a_stretch_by_its_times(read: Read) -> None:
    rows = read(step=3)
    assert rows.window.title.endswith(" 3")
    middle = (rows.window.start_ns + rows.window.end_ns) // 2
    part = read(from_ns=middle, to_ns=middle + 1_000_000)
    assert (part.window.start_ns, part.window.end_ns) == (middle, middle + 1_000_000)
    assert all(e.end_ns >= middle and e.start_ns < middle + 1_000_000 for e in part.events)
    assert part.marks and part.events


def test_what_is_not_there_is_one_clear_line(read: Read, spark: SparkSession) -> None:
    with pytest.raises(NothingToShowError, match="no complete step 999999"):
        read(step=999_999)
    with pytest.raises(NothingToShowError, match="is not before"):
        read(from_ns=5, to_ns=5)
    with pytest.raises(NothingToShowError, match="nothing was recorded"):
        read(from_ns=5, to_ns=6)
    with pytest.raises(UnknownJobError, match="no job nobody"):
        timeline_rows(lambda text: [r.asDict(recursive=True) for r in spark.sql(text).collect()], "nobody")


@pytest.mark.usefixtures("one_session")
def test_the_command_writes_a_page_and_a_trace(small_fleet: tuple[Lake, Truth], job: str, tmp_path: Path) -> None:
    lake = str(small_fleet[0].root)
    for asked, name in (
        ([], f"timeline-{job}.html"),
        (["--step", "3"], f"timeline-{job}@step-3.html"),
        (["--format", "perfetto"], f"timeline-{job}.json.gz"),
    ):
        said = RUNNER.invoke(app, ["timeline", job, *asked, "--lake", lake, "--out", str(tmp_path)])
        assert said.exit_code == 0, said.output
        assert (tmp_path / name).is_file()
    trace = json.loads(gzip.decompress((tmp_path / f"timeline-{job}.json.gz").read_bytes()))
    assert {e["ph"] for e in trace["traceEvents"]} >= {"X", "M", "s", "f"}
    for asked, words in (
        (["--step", "999999"], "no complete step 999999"),
        (["--format", "svg"], "choose html or perfetto"),
        (["--step", "1", "--from-ns", "5"], "exclude each other"),
    ):
        said = RUNNER.invoke(app, ["timeline", job, *asked, "--lake", lake, "--out", str(tmp_path)])
        assert said.exit_code == 1
        assert words in said.output
    _opens(tmp_path / f"timeline-{job}.html")


def _opens(page: Path) -> None:
    if not BINARY.exists():
        return
    assert page.stat().st_size < 5_000_000
    with Chromium() as browser:
        browser.open(page)
        end = time.monotonic() + 30
        while browser.run("document.body.dataset.timeline") != "drawn" and time.monotonic() < end:
            time.sleep(0.05)
        assert browser.messages() == []
        assert browser.requests() == []
        kernel = browser.run("timeline.model.link.findIndex((launch) => launch >= 0)")
        assert browser.run(f"timeline.arrowsOf(timeline.model, {kernel}).length") == 1
