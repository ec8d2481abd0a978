"""The one Spark session of a command."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tracelake.pipelines.jars import class_path
from tracelake.pipelines.s3a import S3A

COLUMN_BOUNDS = "parquet.column.statistics.enabled"
_JAVA = (17, 21)
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_ALWAYS = {
    "spark.sql.extensions": _EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    # Spark 4.1 drops projections that an ORDER BY with LIMIT makes redundant, then drops that one where at most one
    # row is left: the answer's columns are those of the file (partition columns last) under the names of the query.
    "spark.sql.execution.removeRedundantProjects": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.enableVectorizedReader": "true",
    # A run makes some 2,000 classes; with room for 100, the next batch or run of a session compiles them all again.
    "spark.sql.codegen.cache.maxEntries": "4000",
    # Each execution's plan is written out as text, for a UI that is off; the last thousand would be kept.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    # Each sort, aggregation and broadcast of a few rows takes a whole page: of a 4 GB heap, 64 MB.
    "spark.buffer.pageSize": "2m",
    # Parquet's own bounds of each column: files are chosen by Delta's, and comparing each written text with the least
    # and the largest so far took 7 % of a run. Those of times stay, for stretches of large files; upkeep writes all.
    f"spark.hadoop.{COLUMN_BOUNDS}": "false",
    f"spark.hadoop.{COLUMN_BOUNDS}#start_ns": "true",
    "spark.hadoop.parquet.size.statistics.enabled": "false",
    # Rows are read from a table's files, found once for many queries: they hold no row that is deleted elsewhere.
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.databricks.delta.checkpointInterval": "20",
    # A table's snapshot, 4 MB with its plans, is kept for an hour, of up to 10,000 tables; a lake has some 45.
    "spark.databricks.delta.delta.log.cacheSize": "100",
    "spark.databricks.delta.stats.skipping": "true",
}

# A short run is mostly planning, in thousands of methods that are called some thousand times: the better compiler waits
# ten times longer for them, and finds the loops over events all the same. Java gives up compiling, or ends, where its
# 240 MB for code are full.
_COMPILING = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
    " -XX:Tier4BackEdgeThreshold=400000 -XX:ReservedCodeCacheSize=512m"
)


class NoSpark(RuntimeError):
    """Spark cannot start here; the text says what to install or to set."""


def spark_session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start (or find) the session. Raises NoSpark for a missing or wrong Java or an unknown master, JarsMissing for
    missing jars.

    `settings` come from conf and win over the defaults. Where spark-submit started this program, master, memory, jars
    and addresses are what it was given.
    """
    given = dict(settings or {})
    builder = SparkSession.builder.appName(f"tracelake {name}")
    for key, value in {**_ALWAYS, **_of_the_place(given), **given}.items():
        builder = builder.config(key, value)
    session = _started(builder, given)
    _check_delta(session)
    # pyspark prints each refused query as a line of JSON beside raising it: what is raised is shown once.
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL)
    return session


def _started(builder: Any, given: Mapping[str, str]) -> SparkSession:
    try:
        session: SparkSession = builder.getOrCreate()
    except (Py4JError, PySparkRuntimeError) as error:
        # What Java said before it ended stands above, on standard error.
        said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else "its Java ended at once"
        named = f" (spark.master is {given['spark.master']!r})" if "spark.master" in given else ""
        raise NoSpark(f"Spark does not start: {said}; look at [spark] of the settings{named}") from error
    return session


def _of_the_place(given: Mapping[str, str]) -> dict[str, str]:
    """Defaults for where Spark runs: this machine, a cluster that this program joins, or wherever it was submitted."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return {}
    java()
    jars = [str(path) for path in class_path(s3=any(key.startswith(S3A) for key in given))]
    started = {"spark.driver.memory": "4g", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if given.get("spark.master", "local").startswith("local"):
        return started | _this_machine(jars)
    # Executors lie on other machines: the driver hands them the jars.
    return started | {"spark.jars": ",".join(jars)}


def _this_machine(jars: list[str]) -> dict[str, str]:
    """Partitions to the core count, loopback only."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log_settings = Path(__file__).with_name("log4j2.properties")
    return {
        "spark.master": "local[*]",
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log_settings} -Dderby.system.home=/tmp"
        f" -XX:+UseParallelGC {_COMPILING}",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.databricks.delta.snapshotPartitions": "1",
    }


def _check_delta(session: SparkSession) -> None:
    """Spark only warns of an extension that it cannot find, and then no table opens."""
    jvm: Any = session._jvm
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName(_EXTENSION, False, loader)
    except Py4JError as error:
        raise NoSpark(
            "Spark runs without Delta; give spark-submit its jars with --jars"
            " (`python -m tracelake.pipelines.jars` fetches and lists them)"
        ) from error


def java() -> str:
    """The Java that Spark will use, and its version. Raises NoSpark for a missing or wrong one."""
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java")
    if program is None or not Path(program).exists():
        raise NoSpark("no Java found; install Java 17 (JAVA_HOME or the PATH says which one to use)")
    said = subprocess.run([program, "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', said)
    if not found or int(found[1]) not in _JAVA:
        version = found[1] if found else "an unknown version"
        raise NoSpark(f"{program} is Java {version}; Spark 4.1 needs Java 17 or 21 (set JAVA_HOME)")
    return f"{program}, Java {found[1]}"
