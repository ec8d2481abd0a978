"""What the checks of a run say: an outcome per check and job, and whether a job may be published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tracelake.pipelines.lake import Lake, conform, one_of
from tracelake.pipelines.ledger import frame
from tracelake.pipelines.measures import Measured, failing_rows, measured
from tracelake.pipelines.parameters import Parameters
from tracelake.pipelines.validation import Asked, Validated, ValidationFailed, Validator
from tracelake.schemas.catalog import computed, table
from tracelake.schemas.model import Severity, Table
from tracelake.schemas.operations.checks import OUTCOMES
from tracelake.schemas.render.expectations import Kind, TableCheck, suite, table_checks

_AT_ONCE = 3
_NOT_CHECKED = "it was not checked yet; `tracelake run` checks what it takes in"


@dataclass(frozen=True)
class Publication:
    """Whether a job may be published, and what speaks against it, in words."""

    is_publishable: bool
    reasons: tuple[str, ...]


def publication(lake: Lake, spark: SparkSession, job_id: str) -> Publication:
    """The verdict on a job. One that was never checked may not be published."""
    rows = lake.read(spark, "operations.publications").filter(one_of("job_id", [job_id])).collect()
    if not rows:
        return Publication(False, (_NOT_CHECKED,))
    return Publication(rows[0]["is_publishable"], tuple(rows[0]["reasons"]))


def check(
    lake: Lake,
    spark: SparkSession,
    jobs: Sequence[str],
    *,
    stored: Callable[[Table], DataFrame],
    raised: Mapping[str, Mapping[str, str]],
    validator: Validator,
    parameters: Parameters,
    run_id: str,
) -> Counter[str]:
    """Check all that jobs have in the tables; write the outcomes and verdicts in place of their earlier ones.

    `stored` gives a table's rows of those jobs; `raised` are, by table, row checks that raised in the pass that wrote.
    Gives the number of checks by outcome.
    """
    limit = parameters.failing_rows_max_ratio
    declared_tables = [each for each in computed().values() if each.name not in parameters.left_out_tables]
    quarantine = lake.read(spark, "operations.quarantine").filter(one_of("job_id", jobs))
    failing = failing_rows(quarantine, list(computed()))

    def measure(declared: Table) -> list[Measured]:
        name = declared.name
        return measured(declared, stored(declared), jobs, failing[name], limit, raised.get(name, {}))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(zip(declared_tables, pool.map(measure, declared_tables), strict=True))
    rows = list(outcomes(found, validator, limit))
    verdicts = [verdict(job, [row for row in rows if row["job_id"] == job]) for job in jobs]
    for name, written in (("operations.checks", rows), ("operations.publications", verdicts)):
        declared = table(name)
        stamped = frame(spark, [{**row, "run_id": run_id} for row in written], declared)
        lake.replace(conform(stamped, declared), declared, one_of("job_id", jobs))
    return Counter(row["outcome"] for row in rows if row["source_id"] is None)


def outcomes(
    found: Sequence[tuple[Table, Sequence[Measured]]], validator: Validator, limit: float
) -> Iterator[dict[str, Any]]:
    """Rows of operations.checks: every check of each job, and windows that break one. Great Expectations decides."""
    asked = {declared.name: Asked(suite(declared, limit), [row.values for row in rows]) for declared, rows in found}
    validated: Mapping[str, Mapping[str, Validated]] = {}
    missing = Validated(frozenset(), "it was not evaluated")
    try:
        validated = validator.validate(asked)
    except ValidationFailed as error:
        missing = Validated(frozenset(), str(error))
    for declared, rows in found:
        for each in table_checks(declared, limit):
            answer = validated.get(declared.name, {}).get(each.id, missing)
            for number, row in enumerate(rows):
                outcome, reason = _outcome(each, row, answer, number)
                if row.source_id is None or outcome in ("failed", "warned"):
                    yield _checked(each, row, outcome, reason)


def _outcome(each: TableCheck, row: Measured, answer: Validated, number: int) -> tuple[str, str | None]:
    if error := row.errors.get(each.id, answer.error):
        return "error", error
    if number in answer.broken:
        return ("failed" if each.severity is Severity.FAIL else "warned"), None
    if row.values[each.id] is None:
        return "not_evaluated", "the columns hold no values" if row.rows else "the table has no rows"
    return "passed", None


def _checked(each: TableCheck, row: Measured, outcome: str, reason: str | None) -> dict[str, Any]:
    value = row.values[each.id]
    failing = {Kind.ROWS: None, Kind.SHARE: row.failing if each.part is None else None}
    return {
        "job_id": row.job_id,
        "table_name": row.table,
        "check_id": each.id,
        "source_id": row.source_id,
        "kind": each.kind.value,
        "severity": each.severity.value,
        "outcome": outcome,
        "measured": None if value is None else float(value),
        "limit_min": each.minimum,
        "limit_max": each.maximum,
        "row_count": row.rows,
        "failing_count": failing.get(each.kind, None if value is None else int(value)),
        "reason": reason,
    }


def verdict(job_id: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A row of operations.publications from a job's rows of operations.checks."""
    whole = [row for row in rows if row["source_id"] is None]
    reasons = [words for row in whole if (words := _stops(row))]
    counts = Counter(row["outcome"] for row in whole)
    return {
        "job_id": job_id,
        "is_publishable": not reasons,
        "reasons": reasons,
        **{f"{outcome}_count": counts[outcome] for outcome in OUTCOMES},
    }


def _stops(row: Mapping[str, Any]) -> str | None:
    """Why a check stops its job's publication, in words; None where it does not."""
    name, check_id, kind = row["table_name"], row["check_id"], Kind(row["kind"])
    if row["outcome"] == "error":
        return f"check raised: {check_id} of {name} ({row['reason']})"
    if row["outcome"] != "failed" or kind is Kind.ROW:
        return None
    if kind is Kind.ROWS:
        return f"empty table: {name}"
    if kind is Kind.SHARE:
        said, limit = (f"{100 * share:.3g} %" for share in (row["measured"], row["limit_max"]))
        return f"{check_id}: {said} of the rows of {name}, and {limit} may be"
    broken = f"{row['failing_count']} row{'s' if row['failing_count'] > 1 else ''} of {name}"
    return f"broken key: {broken} repeat one" if kind is Kind.KEY else f"broken identity: {broken} against {check_id}"
