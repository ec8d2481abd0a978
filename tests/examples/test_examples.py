"""The examples as users run them: real frameworks under the recorder, into one lake, to tables and pages."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from chromium import BINARY, Chromium
from frameworks import ROOT, framework_python, torch_python
from pyspark.sql import SparkSession
from quick import run
from recorded import environment, wait_until_delivered

from tracelake.pipelines.lake import Lake
from tracelake.reports.data import job_data
from tracelake.reports.job import job_page
from tracelake.schemas.catalog import tables

Row = dict[str, Any]
_PARTS = ("data_loading", "forward", "backward", "optimizer")
_SAGEMAKER = ("Data Loading", "Forward", "Loss", "Backward", "Optimizer")
_CLASSES = ("runtime_ns", "data_loading_ns", "host_work_ns", "other_ns")
_DEVICE_CLASSES = ("compute_ns", "exposed_comm_ns", "memcpy_ns", "memset_ns", "gpu_time_ns")
# PyTorch 1.13: on Python 3.11 it fails without redirects, and it looks for ended ranks each 5 s, later ones each 0.1 s.
_TORCHRUN = (
    "-m", "torch.distributed.run", "--nproc_per_node=2", "--redirects=1", "--tee=1", "--monitor_interval=0.1"
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Example:
    """One run of a script, and what is known of it without looking at what was recorded."""

    family: str
    script: str
    steps: int
    parts: tuple[str, ...] = _PARTS
    python: Callable[[], str] = torch_python
    framework: str = r"PyTorch \d+\.\d+.*"
    record: tuple[str, ...] | None = ()  # options of tracelake-record; None: plain Python
    launcher: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def process_count(self) -> int:
        return max(1, len(self.ranks))

    def command(self) -> list[str]:
        python = self.python()
        script = [python, *self.launcher, str(ROOT / "examples" / self.script), "--steps", str(self.steps)]
        recorder = [str(Path(python).parent / "tracelake-record"), *(self.record or ()), "--"]
        return script if self.record is None else [*recorder, *script]


EXAMPLES = (
    Example(
        "keras_cnn", "keras_cnn.py", 12, (), lambda: framework_python("tensorflow", "tensorflow"),
        r"TensorFlow \d+\.\d+\.\d+", environ={"TF_CPP_MIN_LOG_LEVEL": "3"},
    ),
    Example(
        "stripes", "pytorch_cnn.py", 100, record=None, environ={"TRACELAKE_JOB_ID": "stripes-run-3"},
        hyperparameters={"steps": "100", "batch_size": "32", "learning_rate": "0.003", "seed": "0"},
        tags={"model": "cnn"},
    ),
    Example(
        "text", "pytorch_transformer.py", 9,
        record=("--job", "text-7", "--tag", "team=examples", "--hyperparameter", "width=32"),
        hyperparameters={"width": "32"}, tags={"team": "examples", "model": "transformer"},
    ),
    Example(
        "mlp-teacher", "sagemaker_script.py", 10, _SAGEMAKER,
        environ={"TRAINING_JOB_NAME": "mlp-teacher-2026-11-29-10-30-00-123", "SM_HPS": '{"lr": 0.05}'},
        hyperparameters={"lr": "0.05"}, tags={"TRAINING_JOB_NAME": "mlp-teacher-2026-11-29-10-30-00-123"},
    ),
    Example(
        "pytorch_transformer", "pytorch_transformer.py", 11, launcher=_TORCHRUN, ranks=(0, 1),
        tags={"model": "transformer", "width": "32"},
    ),
)  # fmt: skip
every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.family)


class Taken:
    """Every example in one lake, by one run of the pipeline."""

    def __init__(self, lake: Lake, spark: SparkSession, missing: dict[str, str], began_ns: int) -> None:
        self.began_ns, self.ended_ns = began_ns, time.time_ns()
        self._lake, self._spark, self._missing = lake, spark, missing
        self._all, self.page = cache(self._collect), cache(self._page)
        lake.register(spark)
        for declared in tables().values():
            if declared.layer != "raw":
                spark.catalog.cacheTable(declared.short_name)  # each page asks twenty questions

    def _collect(self, table: str) -> list[Row]:
        return [row.asDict(recursive=True) for row in self._lake.read(self._spark, table).collect()]

    def rows(self, table: str, example: Example) -> list[Row]:
        job_id = self.job(example)["job_id"]
        return [row for row in self._all(table) if row["job_id"] == job_id]

    def job(self, example: Example) -> Row:
        """The one job of its family, by which examples differ; most were never told a job id."""
        if example.family in self._missing:
            pytest.skip(self._missing[example.family])
        (job,) = [row for row in self._all("normalized.jobs") if row["family"] == example.family]
        return job

    def _page(self, example: Example) -> str:
        def query(text: str) -> list[Row]:
            return [row.asDict(recursive=True) for row in self._spark.sql(text).collect()]

        return job_page(job_data(query, self.job(example)["job_id"]), made_ns=self.ended_ns)


@pytest.fixture(scope="module")
def taken(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Taken]:
    folder, began_ns = tmp_path_factory.mktemp("examples"), time.time_ns()
    missing: dict[str, str] = {}
    commands: list[tuple[Example, list[str]]] = []
    for example in EXAMPLES:
        try:
            commands.append((example, example.command()))
        except pytest.skip.Exception as absent:
            missing[example.family] = str(absent)
    if not commands:
        pytest.skip("; ".join(sorted(set(missing.values()))))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: _record(folder, *each), [each for each in commands if not each[0].ranks]))
    for each in commands:
        if each[0].ranks:
            _record(folder, *each)
    wait_until_delivered(folder)
    lake = Lake(folder / "lake")
    run(lake, spark)
    yield Taken(lake, spark, missing, began_ns)
    spark.catalog.clearCache()


def _record(folder: Path, example: Example, command: list[str]) -> None:
    """Run it to its end. An empty TRACELAKE_JOB_ID is none."""
    environ = environment(folder, job_id="", sampling_interval_ms=100) | dict(example.environ)
    ran = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    said = [line for line in ran.stdout.splitlines() if f" {example.steps} steps: " in line]
    assert len(said) == example.process_count, ran.stdout
    assert not re.search("nothing is recorded|recording suffers|are not seen", ran.stderr), ran.stderr


@every_example
def test_the_job_is_known_and_ended_well(taken: Taken, example: Example) -> None:
    job = taken.job(example)
    assert (job["state"], job["attempt_count"], job["format"]) == ("completed", 1, "tracelake")
    assert job["exit_code"] == (None if example.record is None else 0)
    assert re.fullmatch(example.framework, job["framework"])
    assert taken.began_ns < job["created_ns"] < job["ended_ns"] < taken.ended_ns
    assert job["hyperparameters"] == example.hyperparameters
    assert {key: job["tags"].get(key) for key in example.tags} == example.tags
    assert f"--steps {example.steps}" in job["tags"]["command"]


@every_example
def test_all_ranks_are_one_job_without_being_told(taken: Taken, example: Example) -> None:
    sources, (summary,) = taken.rows("normalized.sources", example), taken.rows("aggregates.job_summary", example)
    assert {row["rank"] for row in sources} == set(example.ranks or (None,))
    assert len(sources) == len({row["process_id"] for row in sources}) == example.process_count
    assert summary["ranks_seen_count"] == len(example.ranks)
    assert summary["ranks_expected_count"] == (len(example.ranks) or None)
    assert (summary["missing_ranks"], summary["conflicting_ranks"]) == ([], [])
    assert {row["status"] for row in sources} == {"complete"}
    assert all(row["rows_read"] == row["rows_stored"] > 0 for row in sources)


@every_example
def test_every_step_is_counted_and_its_parts_sum_to_it(taken: Taken, example: Example) -> None:
    steps, sources = taken.rows("aggregates.step_ledger", example), taken.rows("normalized.sources", example)
    for source in sources:
        own = sorted((row for row in steps if row["source_id"] == source["source_id"]), key=lambda row: row["start_ns"])
        assert [row["step_index"] for row in own] == list(range(example.steps))
        assert [row["step_occurrence"] for row in own] == list(range(example.steps))
        assert 0 < sum(row["duration_ns"] for row in own) <= source["window_end_ns"] - source["window_start_ns"]
    for row in steps:
        assert row["duration_ns"] == sum(row[name] for name in _CLASSES)
        assert row["runtime_ns"] == row["launch_count"] == 0
        assert (row["data_loading_ns"] > 0, row["host_work_ns"] > 0) == (bool(example.parts),) * 2
        assert 0 <= row["other_ns"] <= row["duration_ns"]
    (summary,) = taken.rows("aggregates.job_summary", example)
    assert summary["step_count"] == example.steps
    assert 0 < summary["step_median_ns"] <= summary["step_max_ns"] <= max(row["duration_ns"] for row in steps)


@every_example
def test_annotations_are_counted_exactly(taken: Taken, example: Example) -> None:
    stats = taken.rows("aggregates.annotation_stats", example)
    expected = dict.fromkeys(("step", *example.parts), example.steps * example.process_count)
    assert {row["name"]: row["annotation_count"] for row in stats} == expected
    assert {row["name"] for row in stats if row["is_step"]} == {"step"}
    assert all(row["open_count"] == 0 < row["duration_min_ns"] <= row["duration_max_ns"] for row in stats)
    assert all(row["gpu_time_ns"] is None for row in stats)


@every_example
def test_no_gpu_is_unknown_and_not_idle(taken: Taken, example: Example) -> None:
    sources, (summary,) = taken.rows("normalized.sources", example), taken.rows("aggregates.job_summary", example)
    for row in sources:
        assert (row["gpu_reason"], row["capture"]) == ("no_gpu_activity_captured", "none")
        assert row["capture_reason"].startswith(("no_driver: ", "no_cuda_work: "))
    assert all(summary[name] is None for name in summary if name.startswith(("gpu_", "compute", "exposed", "idle")))
    assert summary["device_count"] == summary["kernel_count"] == 0
    for row in taken.rows("aggregates.step_ledger", example):
        assert row["reason"] == "no_gpu_activity_captured"
        assert [row[name] for name in _DEVICE_CLASSES] == [None] * len(_DEVICE_CLASSES)
    for row in taken.rows("aggregates.device_ledger", example):
        assert (row["device_id"], row["idle_ns"], row["reason"]) == (None, None, "no_gpu_activity_captured")


@every_example
def test_processor_and_memory_are_sampled(taken: Taken, example: Example) -> None:
    (summary,) = taken.rows("aggregates.job_summary", example)
    assert 0 < summary["cpu_util_ratio"] <= 1
    shown = [row for row in taken.rows("aggregates.utilization", example) if row["metric"] == "cpu_util_ratio"]
    assert shown
    assert all(0 <= row["value_ratio"] <= 1 and row["coverage_ratio"] == 1 for row in shown)
    for source in taken.rows("normalized.sources", example):
        samples = [row for row in taken.rows("normalized.samples", example) if row["source_id"] == source["source_id"]]
        inside = [row for row in samples if source["window_start_ns"] <= row["at_ns"] < source["window_end_ns"]]
        memory = [row for row in inside if (row["entity_kind"], row["metric"]) == ("process", "memory_rss")]
        assert {row["entity_id"] for row in memory} == {str(source["process_id"])}
        assert 50 << 20 < max(row["value"] for row in memory) < 4 << 30
        assert not [row for row in samples if row["entity_kind"] == "device"]


@every_example
def test_the_page_says_what_is_not_known(taken: Taken, example: Example) -> None:
    page = taken.page(example)
    assert "no_gpu_activity_captured" in page
    assert "neither launches nor device events were recorded" in page.lower()
    shown = re.search(r">GPU active<.*?<dd[^>]*>(.*?)</dd>", page, re.DOTALL)
    assert shown
    assert not re.search(r"\d", shown[1])


@pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not installed: pages were not opened")
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_of_a_job_without_gpu_opens(taken: Taken, tmp_path: Path, width: int) -> None:
    file = tmp_path / "page.html"
    file.write_text(taken.page(EXAMPLES[-1]), encoding="utf-8")
    with Chromium() as browser:
        browser.open(file, width)
        drawn = browser.run("({...document.body.dataset})")
        assert int(drawn["done"]) == int(drawn["charts"]) >= 4
        assert (browser.messages(), browser.requests()) == ([], [])
        assert browser.run("document.documentElement.scrollWidth") == width
