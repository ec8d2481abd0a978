"""A lake, in a folder or a bucket, and its Delta tables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.functions.local import local_frame
from tracelake.pipelines.lease import Lease, hold
from tracelake.schemas.catalog import LAYERS, table, tables, views
from tracelake.schemas.manifest import RAW_FOLDER
from tracelake.schemas.model import Column, Table
from tracelake.schemas.render.spark import create_alias, create_empty, create_view, ddl
from tracelake.schemas.storage import Folder, Storage, storage_of

_IDS = ("job_id", "source_id", "run_id")
_AT_ONCE = 3
"""Tables registered at a time: each mostly waits for its log."""


class LakeUnusable(RuntimeError):
    """The lake cannot be read or written; the text names the path and what to do."""


class Lake:
    """One folder or prefix of a bucket: raw/, tables/<layer>/<table>, reports/."""

    def __init__(self, place: Path | Storage, *, wait_seconds: float | None = None) -> None:
        """`wait_seconds`: how long a writer waits for another to end; None is as long as it takes."""
        self.storage = storage_of(place)
        self.raw = self.storage.below(RAW_FOLDER)
        self.wait_seconds = wait_seconds
        self._fitting: set[str] = set()
        self._held: Lease | None = None

    @property
    def name(self) -> str:
        return self.storage.name

    @property
    def root(self) -> Path:
        """The folder of a lake that is one. Raises LakeUnusable for a bucket."""
        if not isinstance(self.storage, Folder):
            raise LakeUnusable(f"{self.name}: this needs a lake in a folder")
        return self.storage.root

    def check_writable(self) -> None:
        """Raises LakeUnusable or StorageFailed where the lake cannot be made or written."""
        if not isinstance(self.storage, Folder):
            self.storage.write(".writable", b"")
            return
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            # A name of its own each time: two runs may ask at once.
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise LakeUnusable(
                f"{self.root}: cannot write the lake ({error.strerror}); choose another --lake"
            ) from error

    def folder(self, declared: Table) -> str:
        """Where a table lies below the lake."""
        return f"tables/{declared.layer}/{declared.short_name}"

    def path(self, declared: Table) -> str:
        """Where a table lies, for Spark."""
        return self.storage.spark_url(self.folder(declared))

    def exists(self, declared: Table) -> bool:
        """Whether a commit was made: a writer that died before its first one leaves a log without any."""
        return self.storage.holds(f"{self.folder(declared)}/_delta_log", ".json")

    def delta(self, spark: SparkSession, declared: Table) -> DeltaTable:
        """A written table, to change rows of. Raises LeaseRefused where another writer has the lake by now."""
        self._check_held()
        return DeltaTable.forPath(spark, self.path(declared))

    def key(self, spark_url: str) -> str:
        """The key below the lake of a file that Delta names."""
        return spark_url.partition(f"{self.storage.spark_url('').rstrip('/')}/")[2]

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A table of the lake; one that was never written is empty, a column added since it was written is NULL."""
        declared = table(name)
        if not self.exists(declared):
            return local_frame(spark, ddl(declared), [])
        stored = spark.read.format("delta").load(self.path(declared))
        added = {c.name: F.lit(None).cast(c.type.value).alias(c.name) for c in self._added(stored, declared)}
        # A newer version's columns, which this one does not declare, are left out too.
        return stored.select(*[added.get(c, F.col(c)) for c in declared.column_names])

    def rows_now(self, spark: SparkSession, name: str, where: str) -> DataFrame:
        """Rows of a table that hold `where`, from the files that may have some now, for many queries of one writer.

        Delta looks for the files of each scan of each query, with a query of its own: a fifth of a short run.
        """
        kept = self.read(spark, name).filter(where)
        declared, files = table(name), kept.inputFiles()
        if not files:
            return local_frame(spark, ddl(declared), [])
        parquet = spark.read.schema(ddl(declared)).option("basePath", self.path(declared)).parquet(*files)
        return parquet.filter(where)

    def _added(self, stored: DataFrame, declared: Table) -> list[Column]:
        """Declared columns that the stored table lacks. Raises LakeUnusable where it cannot be this table."""
        types = {field.name: field.dataType.simpleString() for field in stored.schema}
        remedy = f"open the lake with the tracelake that wrote it, or remove {self.storage.url('tables')} and run again"
        for column in declared.columns:
            if column.name not in types and not column.nullable:
                raise LakeUnusable(f"{declared.name}: the stored table has no column {column.name}; {remedy}")
            if types.get(column.name, column.type.value) != column.type.value:
                raise LakeUnusable(
                    f"{declared.name}: column {column.name} is stored as {types[column.name]}, and is"
                    f" {column.type.value} in this version; {remedy}"
                )
        return [column for column in declared.columns if column.name not in types]

    def read_raw(self, spark: SparkSession, kind: str, paths: Sequence[str]) -> DataFrame:
        """Raw segments of one kind, by Spark's names for them, with the declared schema."""
        schema = ddl(table(f"raw.{kind}"))
        if not paths:
            return local_frame(spark, schema, [])
        return spark.read.schema(schema).parquet(*paths)

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
        self._check_held()
        writer.save(self.path(declared))

    def append(self, rows: DataFrame, declared: Table) -> None:
        """Add `rows` (of `conform`) to a table."""
        self._check_held()
        self._writer(rows, declared).mode("append").save(self.path(declared))

    def _writer(self, rows: DataFrame, declared: Table) -> DataFrameWriter:
        """A writer that adds columns to an older table: declared ones, that may be NULL, and nothing else.

        The stored columns are looked at until they fit, and no more: opening a table costs as much as a small write.
        """
        writer = rows.write.format("delta").partitionBy(*declared.partition_by)
        if not self.exists(declared):
            return writer.option("delta.dataSkippingStatsColumns", ",".join(_searched(declared)))
        if declared.name not in self._fitting:
            stored = rows.sparkSession.read.format("delta").load(self.path(declared))
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
        too. A table that was never written is empty.
        """
        self.register_tables(spark)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda each: spark.sql(create_alias(each, self._absent(spark, each))), _stored()))
            list(pool.map(lambda view: spark.sql(create_view(view)), views().values()))

    def register_tables(self, spark: SparkSession) -> None:
        """Make the tables visible to SQL as <layer>.<table>, which is all that pages need; unwritten ones are empty."""
        for layer in LAYERS[1:]:
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {layer}")
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda each: self._register(spark, each), _stored()))

    def _register(self, spark: SparkSession, declared: Table) -> None:
        if spark.catalog.tableExists(declared.name):
            kind = "VIEW" if spark.catalog.getTable(declared.name).tableType == "VIEW" else "TABLE"
            spark.sql(f"DROP {kind} {declared.name}")
        if self.exists(declared):
            location = literal(self.path(declared))
            spark.sql(f"CREATE TABLE {declared.name} USING delta LOCATION {location}")
        else:
            spark.sql(create_empty(declared))

    def _absent(self, spark: SparkSession, declared: Table) -> set[str]:
        """Columns that cannot be read from the stored table."""
        return {c.name for c in self._added(spark.table(declared.name), declared)}

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Hold the lake for writing. Raises LeaseRefused where another writer does not end in time."""
        self.check_writable()
        with hold(self.storage, self.wait_seconds) as self._held:
            try:
                yield
            finally:
                self._held = None

    def _check_held(self) -> None:
        """Raises LeaseRefused where the lease that this lake's writer took is another's by now."""
        if self._held is not None:
            self._held.check()


def _searched(declared: Table) -> list[str]:
    """Columns whose bounds let readers pass over files; those of all columns would cost half of a small write."""
    asked = dict.fromkeys((*declared.cluster_by, *(c for c in _IDS if c in declared.column_names)))
    return [name for name in asked if name not in declared.partition_by]


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
    """A Python value as a SQL literal. A dollar is written by its number: Spark puts variables in before it parses."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"
    return str(value)


def one_of(column: str, values: Sequence[Any]) -> str:
    """`column IN (…)`; an empty list is never true."""
    distinct = sorted(set(values))
    return f"{column} IN ({', '.join(literal(v) for v in distinct)})" if distinct else "false"
