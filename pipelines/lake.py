"""The folder that a lake is, and its Delta tables."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracelake.schemas.catalog import LAYERS, table, tables
from tracelake.schemas.model import Table
from tracelake.schemas.render.spark import ddl


class LakeUnusable(RuntimeError):
    """The lake cannot be read or written; the text names the path and what to do."""


class Lake:
    """One folder: raw/, tables/<layer>/<table>, reports/."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def check_writable(self) -> None:
        """Raises LakeUnusable where the folder cannot be made or written."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / ".writable"
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            raise LakeUnusable(
                f"{self.root}: cannot write the lake ({error.strerror}); choose another --lake"
            ) from error

    def path(self, declared: Table) -> Path:
        return self.root / "tables" / declared.layer / declared.short_name

    def exists(self, declared: Table) -> bool:
        return (self.path(declared) / "_delta_log").is_dir()

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A table of the lake; one that was never written is empty."""
        declared = table(name)
        if not self.exists(declared):
            return spark.createDataFrame([], ddl(declared))
        return spark.read.format("delta").load(str(self.path(declared)))

    def read_raw(self, spark: SparkSession, kind: str, paths: Sequence[Path]) -> DataFrame:
        """Raw segments of one kind, by path, with the declared schema."""
        schema = ddl(table(f"raw.{kind}"))
        if not paths:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*[str(path) for path in paths])

    def replace(self, rows: DataFrame, declared: Table, where: str) -> None:
        """Put `rows` (of `conform`) in place of the table's rows that satisfy `where`."""
        ordered = (
            rows.sortWithinPartitions(*declared.partition_by, *declared.cluster_by) if declared.cluster_by else rows
        )
        writer = ordered.write.format("delta").mode("overwrite").partitionBy(*declared.partition_by)
        if self.exists(declared):
            writer = writer.option("replaceWhere", where)
        writer.save(str(self.path(declared)))

    def append(self, rows: DataFrame, declared: Table) -> None:
        """Add `rows` (of `conform`) to a table."""
        rows.write.format("delta").mode("append").partitionBy(*declared.partition_by).save(str(self.path(declared)))

    def register(self, spark: SparkSession) -> None:
        """Make every written table visible to SQL as <layer>.<table> and by its bare name."""
        for layer in LAYERS[1:]:
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {layer}")
        for name, declared in tables().items():
            if declared.layer != "raw":
                spark.sql(f"DROP TABLE IF EXISTS {name}")
                if self.exists(declared):
                    spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{self.path(declared).absolute()}'")
                self.read(spark, name).createOrReplaceTempView(declared.short_name)

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Hold the lake for writing. A second writer waits; a dead one's hold ends with its process."""
        self.check_writable()
        with (self.root / ".lease").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def conform(rows: DataFrame, declared: Table) -> DataFrame:
    """`rows` with exactly the declared columns, in order, cast and commented.

    Raises ValueError naming the columns that are missing or not declared.
    """
    missing = [name for name in declared.column_names if name not in rows.columns]
    extra = [name for name in rows.columns if name not in declared.column_names]
    if missing or extra:
        raise ValueError(f"{declared.name}: missing columns {missing}, undeclared columns {extra}")
    return rows.select(
        *[F.col(c.name).cast(c.type.value).alias(c.name, metadata={"comment": c.comment}) for c in declared.columns]
    )


def literal(value: Any) -> str:
    """A Python value as a SQL literal."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)


def one_of(column: str, values: Sequence[Any]) -> str:
    """`column IN (…)`; an empty list is never true."""
    distinct = sorted(set(values))
    return f"{column} IN ({', '.join(literal(v) for v in distinct)})" if distinct else "false"
