"""What a table is: columns with units, a key, checks, and the tables it is made from.

Declarations are data. They import nothing but the standard library, so that the recorder, Airflow and the
documentation can read them without Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Unit(str, Enum):
    """Units a column may have; the column's name ends in the unit's suffix."""

    NANOSECOND = "ns"
    BYTE = "bytes"
    COUNT = "count"
    RATIO = "ratio"
    WATT = "watts"
    HERTZ = "hz"
    MICROSECOND = "us"
    MILLISECOND = "ms"
    HOUR = "hours"
    PERCENT = "percent"

    @property
    def suffix(self) -> str:
        return f"_{self.value}"


FOR_READING = (Unit.MICROSECOND, Unit.MILLISECOND, Unit.HOUR, Unit.PERCENT)
"""Units of views only."""


class Type(str, Enum):
    """Column types, named as Spark SQL names them."""

    BIGINT = "bigint"
    INT = "int"
    DOUBLE = "double"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    STRINGS = "array<string>"
    BIGINTS = "array<bigint>"
    MAP = "map<string,string>"
    TIMESTAMP = "timestamp"


class Severity(str, Enum):
    """`fail` rows are quarantined and can stop a publication; `warn` rows are only counted."""

    FAIL = "fail"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Check:
    """One row check: a Spark SQL predicate on `column` that must not be false. NULL passes; see `Column.nullable`."""

    id: str
    predicate: str
    severity: Severity = Severity.FAIL


def at_least(bound: int) -> Check:
    return Check(f"at_least_{bound}", f"{{column}} >= {bound}")


def between(low: int, high: int) -> Check:
    return Check(f"between_{low}_{high}", f"{{column}} BETWEEN {low} AND {high}")


def one_of(*values: str) -> Check:
    listed = ", ".join(f"'{value}'" for value in values)
    return Check("one_of", f"{{column}} IN ({listed})")


@dataclass(frozen=True, slots=True)
class Identity:
    """What must hold between the columns of each row: a Spark SQL predicate; where it is NULL there is nothing to hold.

    Rows that break one stay in the table, since the fault is in what computed them, and stop the job's publication.
    """

    id: str
    predicate: str


def has_reason(*names: str) -> Identity:
    """Columns that are NULL together only where a reason code says why."""
    nulls = " AND ".join(f"{name} IS NULL" for name in names)
    return Identity("unknown_has_reason", f"NOT ({nulls}) OR reason IS NOT NULL")


@dataclass(frozen=True, slots=True)
class Share:
    """Two columns whose sums are a part and its whole; above the limit of failing rows it stops publication."""

    id: str
    part: str
    whole: str


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `nullable` says that NULL is a legal, meaningful value (the comment says what it means)."""

    name: str
    type: Type
    comment: str
    unit: Unit | None = None
    nullable: bool = False
    checks: tuple[Check, ...] = ()


def _check_columns(owner: str, columns: tuple[Column, ...]) -> None:
    names = [column.name for column in columns]
    if len(set(names)) != len(names):
        raise ValueError(f"{owner}: two columns have one name")
    comments = [column.comment for column in columns]
    for comment in comments:
        if comments.count(comment) > 1:
            raise ValueError(f"{owner}: two columns have one comment: {comment!r}")
    for column in columns:
        if not column.comment.endswith("."):
            raise ValueError(f"{owner}.{column.name}: the comment is not a sentence")
        if column.unit and not f"_{column.name}".endswith(column.unit.suffix):
            raise ValueError(f"{owner}.{column.name}: the name does not end in {column.unit.suffix}")
        if not column.unit and any(column.name.endswith(unit.suffix) for unit in Unit):
            raise ValueError(f"{owner}.{column.name}: the name ends in a unit that it does not declare")


@dataclass(frozen=True, slots=True)
class Table:
    """One table, declared once. Validated at import: a mistake here fails the first import, not a nightly run."""

    name: str
    grain: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    reads: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    version: int = 1
    may_be_empty: bool = False
    identities: tuple[Identity, ...] = ()
    shares: tuple[Share, ...] = ()

    def __post_init__(self) -> None:
        layer, _, short = self.name.partition(".")
        if not (layer and short):
            raise ValueError(f"{self.name}: a table is named <layer>.<table>")
        _check_columns(self.name, self.columns)
        for column in self.columns:
            if column.type is Type.TIMESTAMP or column.unit in FOR_READING:
                raise ValueError(f"{self.name}.{column.name}: tables hold integer nanoseconds; the rest is for views")
        for what, listed in (
            ("key", self.key), ("partition", self.partition_by), ("cluster", self.cluster_by),
            ("share", tuple(name for each in self.shares for name in (each.part, each.whole))),
        ):  # fmt: skip
            for name in listed:
                if name not in self.column_names:
                    raise ValueError(f"{self.name}: the {what} column {name} does not exist")
        ids = [each.id for each in self.identities] + [each.id for each in self.shares]
        if len(set(ids)) != len(ids):
            raise ValueError(f"{self.name}: two identities or shares have one id")

    @property
    def layer(self) -> str:
        return self.name.partition(".")[0]

    @property
    def short_name(self) -> str:
        return self.name.partition(".")[2]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"{self.name} has no column {name}")


@dataclass(frozen=True, slots=True)
class View:
    """A query that analysts would otherwise write again and again: friendly names, readable units, the usual joins.

    `sql` names tables by their bare names, those of `reads`; its columns come in the order of `columns`.
    """

    name: str
    comment: str
    reads: tuple[str, ...]
    columns: tuple[Column, ...]
    sql: str

    def __post_init__(self) -> None:
        if not self.name.startswith("v_"):
            raise ValueError(f"{self.name}: a view is named v_<what>")
        if not self.comment.endswith("."):
            raise ValueError(f"{self.name}: the comment is not a sentence")
        _check_columns(self.name, self.columns)
