"""The folder that a lake is, and its Delta tables."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from tracelake.schemas.catalog import LAYERS, table, tables, views
from tracelake.schemas.model import Column, Table
from tracelake.schemas.render.spark import create_alias, create_view, ddl

_AT_ONCE = 3
"""Tables registered at a time: each mostly waits for its log."""


class LakeUnusable(RuntimeError):
    """The lake cannot be read or written; the text names the path and what to do."""


class Lake:
    """One folder: raw/, tables/<layer>/<table>, reports/."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._fitting: set[str] = set()

    def check_writable(self) -> None:
        """Raises LakeUnusable where the folder cannot be made or written."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            # A name of its own each time: two runs may ask at once.
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise LakeUnusable(
                f"{self.root}: cannot write the lake ({error.strerror}); choose another --lake"
            ) from error

    def path(self, declared: Table) -> Path:
        return self.root / "tables" / declared.layer / declared.short_name

    def exists(self, declared: Table) -> bool:
        return (self.path(declared) / "_delta_log").is_dir()

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A table of the lake; one that was never written is empty, a column added since it was written is NULL."""
        declared = table(name)
        if not self.exists(declared):
            return spark.createDataFrame([], ddl(declared))
        stored = spark.read.format("delta").load(str(self.path(declared)))
        added = {c.name: F.lit(None).cast(c.type.value).alias(c.name) for c in self._added(stored, declared)}
        # A newer version's columns, which this one does not declare, are left out too.
        return stored.select(*[added.get(c, F.col(c)) for c in declared.column_names])

    def _added(self, stored: DataFrame, declared: Table) -> list[Column]:
        """Declared columns that the stored table lacks. Raises LakeUnusable where it cannot be this table."""
        types = {field.name: field.dataType.simpleString() for field in stored.schema}
        remedy = f"open the lake with the tracelake that wrote it, or remove {self.root / 'tables'} and run again"
        for column in declared.columns:
            if column.name not in types and not column.nullable:
                raise LakeUnusable(f"{declared.name}: the stored table has no column {column.name}; {remedy}")
            if types.get(column.name, column.type.value) != column.type.value:
                raise LakeUnusable(
                    f"{declared.name}: column {column.name} is stored as {types[column.name]}, and is"
                    f" {column.type.value} in this version; {remedy}"
                )
        return [column for column in declared.columns if column.name not in types]

    def read_raw(self, spark: SparkSession, kind: str, paths: Sequence[Path]) -> DataFrame:
        """Raw segments of one kind, by path, with the declared schema."""
        schema = ddl(table(f"raw.{kind}"))
        if not paths:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*[str(path) for path in paths])

    def replace(self, rows: DataFrame, declared: Table, where: str, *, same_rows: bool = False) -> None:
        """Put `rows` (of `conform`) in place of the table's rows that satisfy `where`.

        `same_rows` says that they are those rows, only laid out anew.
        """
        ordered = (
            rows.sortWithinPartitions(*declared.partition_by, *declared.cluster_by) if declared.cluster_by else rows
        )
        writer = self._writer(ordered, declared).mode("overwrite").option("dataChange", str(not same_rows).lower())
        if self.exists(declared):
            writer = writer.option("replaceWhere", where)
        writer.save(str(self.path(declared)))

    def append(self, rows: DataFrame, declared: Table) -> None:
        """Add `rows` (of `conform`) to a table."""
        self._writer(rows, declared).mode("append").save(str(self.path(declared)))

    def _writer(self, rows: DataFrame, declared: Table) -> DataFrameWriter:
        """A writer that adds columns to an older table: declared ones, that may be NULL, and nothing else.

        The stored columns are looked at until they fit, and no more: opening a table costs as much as a small write.
        """
        writer = rows.write.format("delta").partitionBy(*declared.partition_by)
        if declared.name not in self._fitting and self.exists(declared):
            stored = rows.sparkSession.read.format("delta").load(str(self.path(declared)))
            if unknown := sorted(set(stored.columns) - set(declared.column_names)):
                raise LakeUnusable(
                    f"{declared.name}: the stored table has column {unknown[0]}, which this version does not know;"
                    " update tracelake"
                )
            if self._added(stored, declared):
                return writer.option("mergeSchema", "true")
            self._fitting.add(declared.name)
        return writer

    def register(self, spark: SparkSession) -> None:
        """Make the tables visible to SQL as <layer>.<table> and by their bare names, and the views over them.

        They stand in the catalog that all sessions of one Spark application share, so that remote sessions see them
        too. By its bare name a table that was never written is empty.
        """
        self.register_tables(spark)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda each: spark.sql(create_alias(each, self._absent(spark, each))), _stored()))
            list(pool.map(lambda view: spark.sql(create_view(view)), views().values()))

    def register_tables(self, spark: SparkSession) -> None:
        """Make the written tables visible to SQL as <layer>.<table>, which is all that pages need."""
        for layer in LAYERS[1:]:
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {layer}")
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda each: self._register(spark, each), _stored()))

    def _register(self, spark: SparkSession, declared: Table) -> None:
        spark.sql(f"DROP TABLE IF EXISTS {declared.name}")
        if self.exists(declared):
            location = literal(str(self.path(declared).absolute()))
            spark.sql(f"CREATE TABLE {declared.name} USING delta LOCATION {location}")

    def _absent(self, spark: SparkSession, declared: Table) -> set[str]:
        """Columns that cannot be read from the stored table; all of them where there is none."""
        is_stored = spark.catalog.tableExists(declared.name)
        return {c.name for c in (self._added(spark.table(declared.name), declared) if is_stored else declared.columns)}

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Hold the lake for writing. A second writer waits; a dead one's hold ends with its process."""
        self.check_writable()
        with (self.root / ".lease").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _stored() -> list[Table]:
    return [declared for declared in tables().values() if declared.layer != "raw"]


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
