"""What the checks of a table come to over the rows that a job has in it: one metrics row per job and window.

Counted from what is stored, for whole jobs: a run in two halves ends with the same numbers as one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.lake import one_of
from tracelake.schemas.model import Table
from tracelake.schemas.render.expectations import FAILING, KEY, ROWS, Kind, TableCheck, table_checks

RAISED = (PySparkException, Py4JError)
"""What Spark raises where an expression cannot be evaluated."""

Place = tuple[str, str | None]
"""(job, window), or (job, None): the job's rows as a whole."""
Failing = Mapping[Place, Mapping[str, int]]
"""Rows set aside by reason code."""


@dataclass(frozen=True)
class Measured:
    """One metrics row. `values` are by check; NULL is a check that had nothing to evaluate or that raised."""

    table: str
    job_id: str
    source_id: str | None
    rows: int
    failing: int
    values: Mapping[str, float | None]
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Counts:
    """Sums of a group of rows: those of a job are the sums of its windows'."""

    rows: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    """By name; one that is missing is NULL, which is not 0."""
    duplicates: int = 0

    def __add__(self, other: _Counts) -> _Counts:
        sums = {name: self.sums.get(name, 0) + other.sums.get(name, 0) for name in {*self.sums, *other.sums}}
        return _Counts(self.rows + other.rows, sums, self.duplicates + other.duplicates)


def failing_rows(quarantine: DataFrame, kinds: Sequence[str]) -> dict[str, dict[Place, Counter[str]]]:
    """Rows that broke a check of a written table, by table, window and reason: the first that a row breaks."""
    aside = quarantine.filter(one_of("kind", kinds)).groupBy("kind", "job_id", "source_id", "reason")
    found: dict[str, dict[Place, Counter[str]]] = {kind: {} for kind in kinds}
    for row in aside.agg(F.sum("rows_count").alias("rows")).collect():
        place = (row["job_id"], row["source_id"] or None)
        found[row["kind"]].setdefault(place, Counter())[row["reason"]] += row["rows"]
    return found


def measured(
    declared: Table,
    stored: DataFrame,
    jobs: Sequence[str],
    failing: Failing,
    failing_max_ratio: float,
    raised: Mapping[str, str],
) -> list[Measured]:
    """The metrics rows of a table: of each job, and of each window where the table is one of windows.

    `stored` are the jobs' rows; `raised` are checks, by reason code, that raised in the pass that wrote. A check that
    raises here is tried alone and job by job, so that it spoils neither another check nor another job.
    """
    checks = table_checks(declared, failing_max_ratio)
    sums = {sql: f"sum {number}" for number, sql in enumerate(sorted(set(_aggregates(checks))))}
    errors: dict[str, dict[str, str]] = {job: dict(raised) for job in jobs}
    try:
        counts = _counted(declared, stored, sums)
    except RAISED:
        counts = {}
        for job in jobs:
            counts |= _one_by_one(declared, stored.filter(one_of("job_id", [job])), sums, checks, errors[job])
    rows = []
    for job in jobs:
        windows = {place: each for place, each in counts.items() if place[0] == job}
        aside = {place: each for place, each in failing.items() if place[0] == job}
        whole = reduce(_Counts.__add__, windows.values(), _Counts()), reduce(_plus, aside.values(), Counter[str]())
        places: dict[Place, tuple[_Counts, Mapping[str, int]]] = {(job, None): whole}
        if by_window(declared):
            each = {place: (windows.get(place, _Counts()), aside.get(place, {})) for place in {*windows, *aside}}
            places |= dict(sorted(each.items(), key=str))
        rows += [_row(declared, checks, sums, place, *found, errors[job]) for place, found in places.items()]
    return rows


def by_window(declared: Table) -> bool:
    """Whether a table's rows belong to a window, and are replaced with it."""
    return declared.layer == "normalized" and "source_id" in declared.key


def _plus(a: Counter[str], b: Mapping[str, int]) -> Counter[str]:
    return a + Counter(b)


def _aggregates(checks: Sequence[TableCheck]) -> Iterator[str]:
    for check in checks:
        yield from (sql for sql in (check.aggregate, check.evaluated, check.part, check.whole) if sql)


def _group(declared: Table) -> list[Column]:
    source = F.col("source_id") if by_window(declared) else F.lit(None).cast("string")
    return [F.col("job_id"), source.alias("source_id")]


def _counted(declared: Table, stored: DataFrame, sums: Mapping[str, str]) -> dict[Place, _Counts]:
    """The sums per group, and whether any key comes twice, in one query.

    Keys are compared by a hash: as many hashes as rows prove that all keys differ, and only where there are fewer are
    the keys themselves grouped.
    """
    grouped = _grouped(declared, stored, sums).withColumn("hashes", F.lit(None).cast("bigint"))
    nulls = [F.lit(None).cast("string").alias(name) for name in ("job_id", "source_id")]
    blanks = [F.lit(None).cast("bigint").alias(name) for name in sums.values()]
    hashes = stored.select(F.xxhash64(*_key(declared)).alias("hash")).agg(
        *[F.max(blank).alias(name) for blank, name in zip(nulls, ("job_id", "source_id"), strict=True)],
        F.count(F.lit(1)).alias("rows"),
        *[F.max(blank).alias(name) for blank, name in zip(blanks, sums.values(), strict=True)],
        F.countDistinct("hash").alias("hashes"),
    )
    counts: dict[Place, _Counts] = {}
    is_unique = True
    for row in grouped.unionByName(hashes).collect():
        if row["hashes"] is None:
            counts[row["job_id"], row["source_id"]] = _Counts(row["rows"], _known(row, sums))
        else:
            is_unique = row["hashes"] == row["rows"]
    return counts if is_unique else _with_duplicates(declared, stored, counts)


def _grouped(declared: Table, stored: DataFrame, sums: Mapping[str, str]) -> DataFrame:
    counted = [F.expr(sql).cast("bigint").alias(name) for sql, name in sums.items()]
    return stored.groupBy(*_group(declared)).agg(F.count(F.lit(1)).alias("rows"), *counted)


def _known(row: Any, sums: Mapping[str, str]) -> dict[str, int]:
    return {name: row[name] for name in sums.values() if row[name] is not None}


def _key(declared: Table) -> list[Column]:
    """The key's columns; beside one that may be NULL stands whether it is, for a hash passes over NULL."""
    columns = []
    for name in declared.key:
        columns.append(F.col(name))
        if declared.column(name).nullable:
            columns.append(F.col(name).isNull())
    return columns


def _with_duplicates(declared: Table, stored: DataFrame, counts: dict[Place, _Counts]) -> dict[Place, _Counts]:
    """Counts with the rows that repeat a key."""
    again = stored.groupBy(*[F.col(name) for name in declared.key]).agg(F.count(F.lit(1)).alias("rows"))
    extra = again.filter("rows > 1").groupBy(*_group(declared)).agg(F.sum(F.col("rows") - 1).alias("duplicates"))
    for row in extra.collect():
        counts[row["job_id"], row["source_id"]].duplicates = row["duplicates"]
    return counts


def _one_by_one(
    declared: Table,
    stored: DataFrame,
    sums: Mapping[str, str],
    checks: Sequence[TableCheck],
    errors: dict[str, str],
) -> dict[Place, _Counts]:
    """The counts of one job where the checks together raised; what raises alone is noted by check."""
    counts = {
        (row["job_id"], row["source_id"]): _Counts(row["rows"]) for row in _grouped(declared, stored, {}).collect()
    }

    def tried(ids: Sequence[str], count: Callable[[], object]) -> None:
        try:
            count()
        except RAISED as error:
            errors.update(dict.fromkeys(ids, said(error)))

    def add(sql: str, name: str) -> None:
        for row in _grouped(declared, stored, {sql: name}).collect():
            counts[row["job_id"], row["source_id"]].sums |= _known(row, {sql: name})

    for sql, name in sums.items():
        tried([check.id for check in checks if sql in _aggregates([check])], lambda s=sql, n=name: add(s, n))  # type: ignore[misc]
    tried([KEY], lambda: _with_duplicates(declared, stored, counts))
    return counts


def said(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]


def _row(
    declared: Table,
    checks: Sequence[TableCheck],
    sums: Mapping[str, str],
    place: Place,
    counts: _Counts,
    aside: Mapping[str, int],
    errors: Mapping[str, str],
) -> Measured:
    failing = sum(aside.values())
    values = {
        check.id: None if check.id in errors else _value(declared, check, sums, counts, aside) for check in checks
    }
    return Measured(declared.name, *place, counts.rows, failing, values, errors)


def _value(
    declared: Table, check: TableCheck, sums: Mapping[str, str], counts: _Counts, aside: Mapping[str, int]
) -> float | None:
    """A check's number; NULL where it had nothing to evaluate."""
    failing = sum(aside.values())
    if check.id == ROWS:
        return counts.rows if counts.rows or not declared.may_be_empty else None
    if check.id == FAILING:
        return _ratio(failing, counts.rows + failing)
    if check.kind is Kind.SHARE:
        part, whole = (counts.sums.get(sums[str(sql)], 0) for sql in (check.part, check.whole))
        return _ratio(part, whole)
    if check.kind is Kind.KEY:
        return counts.duplicates if counts.rows else None
    if check.aggregate:
        return counts.sums.get(sums[check.aggregate])
    broken = aside.get(check.id, 0)
    return broken if broken or counts.sums.get(sums[str(check.evaluated)]) else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
