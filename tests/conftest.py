"""One Spark session and one lake folder for the whole run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tracelake.pipelines.session import spark_session

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = spark_session("tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def traces() -> Path:
    """The recorded traces beside the project; tests that need them are skipped where they are absent."""
    folder = SHARED / "traces"
    if not folder.is_dir():
        pytest.skip("../shared/traces is absent: the recorded traces are not part of the repository")
    return folder
