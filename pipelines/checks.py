"""Row checks from the declarations, evaluated in the pass that writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tracelake.pipelines.measures import RAISED, said
from tracelake.schemas.model import Table
from tracelake.schemas.render.spark import row_checks

REMEDIES = {
    "zero_time": "the tool wrote no time for this event; nothing to do",
    "sentinel_time": "the tool wrote a marker instead of a time; nothing to do",
    "negative_duration": "the event ends before it starts; update what recorded it",
}
_OTHER_REMEDY = "the row breaks a declared check; see the table's entry in docs/dictionary.md"


def failed_check(declared: Table, without: Collection[str] = ()) -> Column:
    """The first failing check of a row, by its reason code; NULL where all hold."""
    reason = F.lit(None).cast("string")
    for code, predicate in reversed(_kept(declared, without)):
        reason = F.when(~F.expr(predicate), F.lit(code)).otherwise(reason)
    return reason


def split(rows: DataFrame, declared: Table, without: Collection[str] = ()) -> tuple[DataFrame, DataFrame]:
    """(rows that hold, rows that fail with `failed_check`, the code of the first that does)."""
    judged = rows.withColumn("failed_check", failed_check(declared, without))
    return judged.filter("failed_check IS NULL").drop("failed_check"), judged.filter("failed_check IS NOT NULL")


def observed(rows: DataFrame, declared: Table, without: Collection[str] = ()) -> tuple[DataFrame, Observation]:
    """Rows that hold, and an observation that the write fills: `failing`, the number of those that do not."""
    observation = Observation()
    holds = F.expr(" AND ".join(f"({predicate})" for _, predicate in _kept(declared, without)) or "true")
    seen = rows.withColumn("holds", holds).observe(observation, F.count_if(~F.col("holds")).alias("failing"))
    return seen.filter("holds").drop("holds"), observation


def raising(rows: DataFrame, declared: Table) -> dict[str, str]:
    """Row checks that cannot be evaluated over the rows, with what they raise; none where the rows themselves raise."""
    checks = row_checks(declared)
    if _raised(rows, [predicate for _, predicate in checks]) is None or _raised(rows, ["true"]) is not None:
        return {}
    found = {code: _raised(rows, [predicate]) for code, predicate in checks}
    return {code: text for code, text in found.items() if text is not None}


def _raised(rows: DataFrame, predicates: Sequence[str]) -> str | None:
    """What evaluating predicates over all rows raises."""
    try:
        evaluated = rows.select(*[F.expr(each).alias(f"check {number}") for number, each in enumerate(predicates)])
        evaluated.write.format("noop").mode("overwrite").save()
    except RAISED as error:
        return said(error)
    return None


def _kept(declared: Table, without: Collection[str]) -> list[tuple[str, str]]:
    return [(code, predicate) for code, predicate in row_checks(declared) if code not in without]


def remedy(reason: Column) -> Column:
    """What the reader can do, by reason code."""
    chosen = F.lit(_OTHER_REMEDY)
    for code, text in REMEDIES.items():
        chosen = F.when(reason == code, F.lit(text)).otherwise(chosen)
    return chosen
