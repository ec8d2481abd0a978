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

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tracelake.pipelines.jars import class_path

_JAVA = (17, 21)


class NoSpark(RuntimeError):
    """Spark cannot start here; the text says what to install."""


def spark_session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start (or find) the session. Raises NoSpark for a missing or wrong Java, JarsMissing for missing jars.

    `settings` come from conf and win over the defaults, which suit small data on one machine: partitions to the core
    count, no UI, loopback only.
    """
    java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    cores = str(os.cpu_count() or 2)
    jars = ":".join(str(path) for path in class_path())
    log_settings = Path(__file__).with_name("log4j2.properties")
    defaults = {
        "spark.master": "local[*]",
        "spark.driver.memory": "4g",
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log_settings} -Dderby.system.home=/tmp"
        " -XX:+UseParallelGC -XX:TieredStopAtLevel=4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.adaptive.enabled": "true",
        # Spark 4.1 drops projections that an ORDER BY with LIMIT makes redundant, then drops that one where at most one
        # row is left: the answer's columns are those of the file (partition columns last) under the names of the query.
        "spark.sql.execution.removeRedundantProjects": "false",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.parquet.enableVectorizedReader": "true",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.databricks.delta.checkpointInterval": "20",
        "spark.databricks.delta.stats.skipping": "true",
    }
    builder = SparkSession.builder.appName(f"tracelake {name}")
    for key, value in {**defaults, **(settings or {})}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    # pyspark prints each refused query as a line of JSON beside raising it: what is raised is shown once.
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL)
    return session


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
