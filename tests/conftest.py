"""One Spark session and one lake folder for the whole run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tracelake.pipelines.session import spark_session
from tracelake.schemas.model import Table
from tracelake.schemas.render.rows import filled
from tracelake.schemas.render.spark import ddl

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = spark_session("tests")
    yield session
    session.stop()


Rows = Callable[..., DataFrame]


@pytest.fixture(scope="session")
def rows(spark: SparkSession) -> Rows:
    """`rows(TABLE, {...}, {...})`: a frame of a declared table, each row naming only the columns that matter."""

    def make(declared: Table, *given: dict[str, Any]) -> DataFrame:
        return spark.createDataFrame([filled(declared, row) for row in given], StructType.fromDDL(ddl(declared)))

    return make


@pytest.fixture(scope="session")
def traces() -> Path:
    """The recorded traces beside the project; tests that need them are skipped where they are absent."""
    folder = SHARED / "traces"
    if not folder.is_dir():
        pytest.skip("../shared/traces is absent: the recorded traces are not part of the repository")
    return folder
