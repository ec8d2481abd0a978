"""Pages of many jobs: each as if it were made alone, and none for what the others are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tracelake import pages
from tracelake.pages import job_pages, query_of
from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth
from tracelake.reports import read, read_changes
from tracelake.reports.data import Chosen, UnknownJobError, choose
from tracelake.schemas.aggregates import device_ledger, job_summary, kernel_stats
from tracelake.schemas.normalized import devices, jobs
from tracelake.schemas.storage import StorageFailed
from tracelake.settings import Settings

Show = Callable[..., None]


def _made(page: Path) -> str:
    """The page without the time that it states."""
    return re.sub(r"made \d[^<]+", "made", page.read_text())


def test_pages_of_many_jobs_are_those_of_each(
    spark: SparkSession, small_fleet: tuple[Lake, Truth], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails for one job is its answer; where reading many together fails, each is read alone."""
    settings, (one, two) = Settings(small_fleet[0].root), [job.job_id for job in small_fleet[1].jobs]
    many, alone = tmp_path / "many", tmp_path / "alone"
    (many / f"job-{two}.html").mkdir(parents=True)
    made = list(job_pages(settings, spark, [one, "nobody", two], many))
    assert [job_id for job_id, _ in made] == [one, "nobody", two]
    assert made[0][1] == str(many / f"job-{one}.html")
    assert isinstance(made[1][1], UnknownJobError)
    assert isinstance(made[2][1], StorageFailed), "a folder is where its page should be"
    assert [view.name for view in spark.catalog.listTables() if view.isTemporary and view.name == "step_ledger"] == []

    read_together = pages._read

    def broken(settings: Settings, session: SparkSession, job_ids: Sequence[str], attempt: int | None) -> Any:
        if "broken" in job_ids:
            raise ArithmeticError("long overflow")
        return read_together(settings, session, job_ids, attempt)

    monkeypatch.setattr(pages, "_read", broken)
    again = dict(job_pages(settings, spark, [one, "broken"], alone))
    assert isinstance(again["broken"], ArithmeticError)
    names = {f"job-{one}.html", f"checks-{one}.html"}
    assert {path.name for path in alone.iterdir()} == names
    assert [name for name in names if _made(many / name) != _made(alone / name)] == []


@pytest.fixture
def show(spark: SparkSession, rows: Any) -> Any:
    """`show(TABLE, {...}, ...)`: rows under the bare name of their table, as pages see them."""
    shown = []

    def view(declared: Any, *given: dict[str, Any]) -> None:
        rows(declared, *given).createOrReplaceTempView(declared.short_name)
        shown.append(declared.short_name)

    yield view
    for name in shown:
        spark.catalog.dropTempView(name)


def test_each_job_is_compared_with_its_own_run_before(spark: SparkSession, show: Show) -> None:
    of_job = {"a1": ("a", 1), "a2": ("a", 2), "a3": ("a", 3), "b2": ("b", 2), "b1": ("b", 1), "none": (None, 9)}
    show(
        jobs.TABLE,
        *({"job_id": j, "family": f, "created_ns": at, "world_size": 8} for j, (f, at) in of_job.items()),
        {"job_id": "wider", "family": "a", "created_ns": 2, "world_size": 16},
    )
    known = {"step_count": 10, "device_count": 1}
    show(
        job_summary.TABLE,
        *({"job_id": j, "attempt": 0, **known} for j in (*of_job, "wider")),
        {"job_id": "a2", "attempt": 1, **known},
    )
    chosen = choose(query_of(spark), [*of_job, "wider", "nobody"])
    found = {job_id: each for job_id, each in chosen.items() if isinstance(each, Chosen)}
    assert {*chosen} - {*found} == {"nobody"}
    before = {job_id: (e.before.job_id, e.before.attempt) for job_id, e in found.items() if e.before}
    assert before == {"a2": ("a1", 0), "a3": ("a2", 1), "b2": ("b1", 0)}

    stats = {"name": "k", "short_name": "k", "device_count": 1}
    show(
        kernel_stats.TABLE,
        *({**stats, "job_id": j, "attempt": a, "duration_sum_ns": ns}
          for j, a, ns in (("a1", 0, 10), ("a2", 0, 7), ("a2", 1, 20), ("a3", 0, 60), ("b1", 0, 1))),
    )  # fmt: skip
    moved = read_changes.moved_kernels(
        query_of(spark), [(e.job, e.summary, e.before) for e in found.values() if e.before]
    )
    assert {job_id: [(k.before_ns, k.now_ns) for k in its] for job_id, its in moved.items()} == {
        "a2": [(1.0, 2.0)], "a3": [(2.0, 6.0)], "b2": [(0.1, 0.0)],
    }  # fmt: skip


def test_each_job_has_the_bound_of_one(spark: SparkSession, show: Show) -> None:
    def ledger(job_id: str, number: int) -> dict[str, Any]:
        return {
            "job_id": job_id, "attempt": 0, "scope": "job", "device_id": f"{number:03}", "rank": number,
            "gpu_active_ratio": number / 100, "window_ns": 10,
        }  # fmt: skip

    show(device_ledger.TABLE, *(ledger("wide", n) for n in range(70)), *(ledger("small", n) for n in range(2)))
    show(devices.TABLE)
    shown = read.devices(query_of(spark), "attempt = 0")
    assert {job_id: len(its) for job_id, its in shown.items()} == {"wide": read.MAX_ROWS, "small": 2}
    others = read.other_devices(query_of(spark), "attempt = 0", shown)
    assert {job_id: (row.device_count, row.window_ns) for job_id, (row,) in others.items()} == {"wide": (6, 60)}
