"""Row checks from the declarations, evaluated in the pass that writes."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tracelake.schemas.model import Table
from tracelake.schemas.render.spark import row_checks

REMEDIES = {
    "zero_time": "the tool wrote no time for this event; nothing to do",
    "sentinel_time": "the tool wrote a marker instead of a time; nothing to do",
    "negative_duration": "the event ends before it starts; update what recorded it",
}
_OTHER_REMEDY = "the row breaks a declared check; see the table's entry in docs/dictionary.md"


@dataclass(frozen=True)
class CheckedTable:
    """What the checks of one table found in one pass: rows seen, and failing rows by reason."""

    table: str
    rows: int
    failed: dict[str, int]
    checks: int
    may_be_empty: bool

    @property
    def outcome(self) -> str:
        """passed, failed, or not_evaluated: a check over no rows has not passed unless the table may be empty."""
        if any(self.failed.values()):
            return "failed"
        return "passed" if self.rows else ("not_evaluated" if self.may_be_empty else "failed")


def failed_check(declared: Table) -> Column:
    """The first failing check of a row, by its reason code; NULL where all hold."""
    reason = F.lit(None).cast("string")
    for code, predicate in reversed(row_checks(declared)):
        reason = F.when(~F.expr(predicate), F.lit(code)).otherwise(reason)
    return reason


def split(rows: DataFrame, declared: Table) -> tuple[DataFrame, DataFrame]:
    """(rows that hold, rows that fail with `failed_check`, the code of the first that does)."""
    judged = rows.withColumn("failed_check", failed_check(declared))
    return judged.filter("failed_check IS NULL").drop("failed_check"), judged.filter("failed_check IS NOT NULL")


def observed(rows: DataFrame, declared: Table) -> tuple[DataFrame, Observation]:
    """Rows that hold, and an observation that the write fills: rows seen and failing rows per check."""
    observation = Observation()
    checks = row_checks(declared)
    counts = [
        F.sum(F.when(~F.expr(predicate), 1).otherwise(0)).alias(f"failed {number}")
        for number, (_, predicate) in enumerate(checks)
    ]
    seen = rows.observe(observation, F.count(F.lit(1)).alias("rows"), *counts)
    holds = " AND ".join(f"({predicate})" for _, predicate in checks) or "true"
    return seen.filter(holds), observation


def result(declared: Table, observation: Observation) -> CheckedTable:
    """What the observation saw. Call it after the write."""
    seen = observation.get
    checks = row_checks(declared)
    failed = {code: int(seen[f"failed {number}"] or 0) for number, (code, _) in enumerate(checks)}
    return CheckedTable(
        declared.name, int(seen["rows"]), {k: v for k, v in failed.items() if v}, len(checks), declared.may_be_empty
    )


def remedy(reason: Column) -> Column:
    """What the reader can do, by reason code."""
    chosen = F.lit(_OTHER_REMEDY)
    for code, text in REMEDIES.items():
        chosen = F.when(reason == code, F.lit(text)).otherwise(chosen)
    return chosen
