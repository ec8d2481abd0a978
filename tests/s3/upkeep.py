"""Run by test_whole_path.py: commands on a lake in a bucket, with one Spark session; prints what they said."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tracelake import commands
from tracelake.cli import app
from tracelake.pipelines.lake import Lake
from tracelake.pipelines.lease import KEY, Holder, LeaseRefused
from tracelake.pipelines.s3a import trouble
from tracelake.schemas.bucket import Bucket
from tracelake.schemas.catalog import table
from tracelake.settings import load

lake, conf = sys.argv[1:3]
settings = load(Path(conf), lake)
bucket = settings.storage
assert isinstance(bucket, Bucket)
said: dict[str, object] = {}
RUNNER = CliRunner()


def says(*arguments: str) -> str:
    result = RUNNER.invoke(app, [*arguments, "--lake", lake, "--conf", conf])
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result.stdout


def lost(session: SparkSession, lake: Lake) -> str:
    """What a writer says whose lease another has taken over."""
    runs = lake.read(session, "operations.runs").limit(1).localCheckpoint()
    with lake.lease():
        other = Holder("elsewhere", 1, "tracelake run", "now", "another's")
        bucket.write(KEY, other.to_json())
        lake._held._write(lake._held._me)  # as its thread does every few seconds
        try:
            lake.append(runs, table("operations.runs"))
        except LeaseRefused as error:
            return str(error)
        finally:
            bucket.delete([KEY])
    return "written"


with commands._session(settings, "tests") as session:

    @contextlib.contextmanager
    def same(settings: object, name: str) -> Iterator[SparkSession]:
        yield session

    commands._session = same
    said["report"] = says("report", "imported")
    page = bucket.connection.client().head_object(
        Bucket=bucket.bucket, Key=f"{bucket.prefix}/reports/job-imported.html"
    )
    said["page"] = [page["ContentType"], page["ContentLength"] > 100_000]
    said["sql"] = says("sql", "SELECT job_id FROM jobs ORDER BY job_id", "--format", "csv")
    said["quarantine"] = says("quarantine", "show", "1", "--format", "json")
    said["maintain"] = says("maintain")
    said["doctor"] = says("doctor")
    said["delete-job"] = says("delete-job", "imported", "--yes")
    with Lake(bucket).lease():
        refused = RUNNER.invoke(app, ["maintain", "--no-wait", "--lake", lake, "--conf", conf])
        said["no wait"] = [refused.exit_code, refused.stderr]
        said["held"] = says("doctor", "--no-spark")
    said["lost"] = lost(session, Lake(bucket))
    try:
        session.read.parquet("s3a://never-made/x").count()
    except (PySparkException, Py4JError) as error:
        said["unknown bucket"] = trouble(error)
print(json.dumps(said))
