"""Hand-made pages of checks: a job where all holds, one where much does not, one with hostile texts, one unchecked."""

from __future__ import annotations

from dataclasses import replace

import sample_cases
import sample_data
import sample_parts as part

from tracelake.reports.checks import ChecksData
from tracelake.reports.record_rows import Checked, Publication, SetAside
from tracelake.schemas.catalog import computed
from tracelake.schemas.model import Severity
from tracelake.schemas.render.expectations import Kind, TableCheck, table_checks

LIMIT = 0.01
REMEDY = "the event ends before it starts; update what recorded it"


def _checked(name: str, check: TableCheck, rows: int = 11_020) -> Checked:
    """A check that passed, or had nothing to evaluate."""
    none = check.kind is Kind.ROW and check.evaluated != "count(1)"
    value = None if none else float(rows) if check.kind is Kind.ROWS else 0.0
    return Checked(
        name, check.id, None, check.kind.value, check.severity.value, "not_evaluated" if none else "passed", value,
        check.minimum, check.maximum, rows, None if none or check.kind is Kind.ROWS else 0,
        "the columns hold no values" if none else None,
    )  # fmt: skip


def all_hold() -> ChecksData:
    checks = [_checked(name, each) for name, table in computed().items() for each in table_checks(table, LIMIT)]
    return ChecksData(sample_data.dlrm().job, part.PUBLISHABLE, tuple(checks), (), ())


def much_fails() -> ChecksData:
    """Every outcome once and more: a broken key and identity, rows that fail, a warning, a check that raised."""
    base = all_hold()
    spoiled = {
        ("normalized.kernels", "key"): ("failed", 3.0, None),
        ("normalized.kernels", "negative_duration"): ("failed", 230.0, None),
        ("normalized.kernels", "failing_rows"): ("failed", 0.0204, None),
        ("aggregates.device_ledger", "parts_sum_to_window"): ("failed", 8.0, None),
        ("normalized.launches", "zero_time"): ("warned", 2.0, None),
        ("aggregates.step_ledger", "classes_sum_to_step"): ("error", None, "[ARITHMETIC_OVERFLOW] long overflow"),
    }
    checks = []
    for check in base.checks:
        if (check.table_name, check.check_id) in spoiled:
            outcome, value, reason = spoiled[check.table_name, check.check_id]
            severity = Severity.WARN.value if outcome == "warned" else check.severity
            count = 230 if check.kind == "share" else None if value is None else int(value)
            check = replace(
                check, outcome=outcome, measured=value, reason=reason, severity=severity, failing_count=count
            )
        checks.append(check)
    reasons = [
        "broken key: 3 rows of normalized.kernels repeat one",
        "failing_rows: 2.04 % of the rows of normalized.kernels, and 1 % may be",
        "broken identity: 8 rows of aggregates.device_ledger against parts_sum_to_window",
        "check raised: classes_sum_to_step of aggregates.step_ledger ([ARITHMETIC_OVERFLOW] long overflow)",
    ]
    broken = [check for check in checks if check.outcome == "failed" and check.table_name.startswith("normalized")]
    windows = tuple(replace(check, source_id=f"0f3a{number:060x}") for number in (1, 2) for check in broken)
    aside = (SetAside("loss", "file_damaged", "ask the owner for the whole file", 1, None),
             SetAside("normalized.kernels", "negative_duration", REMEDY, 230, 230))  # fmt: skip
    return replace(
        base,
        checks=tuple(checks),
        windows=windows,
        aside=aside,
        publication=Publication(False, reasons, 400, 4, 1, 152, 1),
    )


def hostile() -> ChecksData:
    """Texts that try to break out of the page, wherever one can stand."""
    base, bad = much_fails(), sample_cases.HOSTILE[0]
    checks = [replace(c, reason=bad if c.reason else None, table_name=bad if c.outcome == "error" else c.table_name)
              for c in base.checks]  # fmt: skip
    return replace(
        base,
        job=sample_cases.hostile().job,
        checks=tuple(checks),
        windows=tuple(replace(w, source_id=bad) for w in base.windows),
        aside=(SetAside(bad, bad, bad, 1, 1),),
        publication=Publication(False, [bad], 1, 1, 1, 1, 1),
    )


def unchecked() -> ChecksData:
    verdict = Publication(False, ["the job was not checked yet"], 0, 0, 0, 0, 0)
    return replace(all_hold(), checks=(), publication=verdict)
