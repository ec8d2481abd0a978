"""One Spark session for all tests of a worker (docs/decisions/0015), and small lakes."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tracelake import commands
from tracelake.pipelines import runner
from tracelake.pipelines.functions.local import local_frame
from tracelake.pipelines.lake import Lake
from tracelake.pipelines.runner import run
from tracelake.pipelines.session import spark_session
from tracelake.pipelines.validation import Asked, Validated, Validator
from tracelake.recorder.simulate import DAY, Truth, simulate_job
from tracelake.recorder.simulate.fleet import jobs
from tracelake.schemas.model import Table
from tracelake.schemas.render.rows import filled
from tracelake.schemas.render.spark import ddl

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Full-size cases run where they are asked for: `-m full`."""
    if "full" in str(config.getoption("markexpr")):
        return
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(reason="full size: run with -m full"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Half an hour of runs of some hundred lakes: more is alive at a time than in any command.
    session = spark_session("tests", {"spark.driver.memory": "6g"})
    with Validator() as validator, pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "Validator", lambda: _Shared(validator))
        yield session
    session.stop()


class _Shared:
    """Great Expectations takes seconds to load: all runs of a session ask one process, one after the other."""

    _turn = threading.Lock()

    def __init__(self, validator: Validator) -> None:
        self._validator = validator

    def __enter__(self) -> _Shared:
        return self

    def __exit__(self, *_: object) -> None:
        """The session ends it."""

    def validate(self, tables: Mapping[str, Asked]) -> dict[str, dict[str, Validated]]:
        with self._turn:
            return self._validator.validate(tables)


@pytest.fixture(scope="module")
def one_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Commands use the tests' session, and leave it running."""

    @contextmanager
    def same(settings: object, name: str) -> Iterator[SparkSession]:
        yield spark

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "_session", same)
        yield spark


Rows = Callable[..., DataFrame]


@pytest.fixture(scope="session")
def rows(spark: SparkSession) -> Rows:
    """`rows(TABLE, {...}, {...})`: a frame of a declared table, each row naming only the columns that matter."""

    def make(declared: Table, *given: dict[str, Any]) -> DataFrame:
        return local_frame(spark, ddl(declared), [filled(declared, row) for row in given])

    return make


@pytest.fixture(scope="session")
def small_fleet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Truth]:
    """A processed lake to read from, with the two smallest faulty jobs of the fleet, and what is true of them."""
    lake = Lake(tmp_path_factory.mktemp("small fleet"))
    chosen = [job for job in jobs(0.0) if job.fault_name in ("slow_step", "killed_process")]
    written = tuple(simulate_job(lake.root, job) for job in chosen)
    run(lake, spark)
    return lake, Truth(7, DAY.isoformat(), written)


@pytest.fixture(scope="session")
def traces() -> Path:
    """The recorded traces beside the project; tests that need them are skipped where they are absent."""
    folder = SHARED / "traces"
    if not folder.is_dir():
        pytest.skip("../shared/traces is absent: the recorded traces are not part of the repository")
    return folder
