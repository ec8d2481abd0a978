"""Runs of a lake: 40 nights, of which one failed, one was incomplete and one did not take place."""

from __future__ import annotations

from tracelake.reports.runs_data import DayOfRuns, FailedDeliveries, Run, RunsData

LAST_NS = 1_795_829_400_000_000_000  # 2026-11-28 01:30 UTC
DAY_NS = 86_400_000_000_000
MINUTE_NS = 60_000_000_000
HOSTILE = "<img src=x onerror=alert(1)>"
_DAYS = tuple(f"2026-11-{day:02d}" for day in range(1, 29) if day != 20)


def runs() -> RunsData:
    """The last night failed; job and error of one run are markup."""
    return RunsData(
        runs=tuple(map(_run, range(40))),
        days=tuple(
            DayOfRuns(day, "failed" if day == _DAYS[-1] else "succeeded", 1, (20 + n) * MINUTE_NS, 900_000, 40, 6, 9)
            for n, day in enumerate(_DAYS)
        ),
        deliveries=(
            FailedDeliveries("mlflow", f"no answer {HOSTILE}", 12, 4, LAST_NS),
            FailedDeliveries("webhook", None, 1, 1, LAST_NS),
        ),
        last_success_ns=LAST_NS - DAY_NS + 30 * MINUTE_NS,
    )


def bare() -> RunsData:
    return RunsData((), (), (), None)


def _run(number: int) -> Run:
    status = {0: "failed", 3: "incomplete"}.get(number, "succeeded")
    error = {"failed": f"{HOSTILE} s3://lake: credentials are refused", "incomplete": "3 of 4 segments"}.get(status)
    started = LAST_NS - number * DAY_NS
    has_new = status != "failed" and number % 5 != 4
    return Run(
        run_id=f"{started:020d}-0000",
        command="nightly",
        status=status,
        error=error,
        started_ns=started,
        ended_ns=started + 25 * MINUTE_NS,
        jobs=[HOSTILE, "llm-7b", "dlrm"] if has_new else [],
        job_count=12 if has_new else 0,
        source_count=96 if has_new else 0,
        rows_read_count=1_000_000 if has_new else 0,
        rows_stored_count=990_000 if has_new else 0,
        rows_quarantined_count=6_000 if has_new else 0,
        rows_deduplicated_count=3_000 if has_new else 0,
        rows_skipped_count=1_000 if has_new else 0,
        seconds={"normalize": "640.25", "aggregate": "700.5", "check": "80"} if has_new else {},
        checks={"passed": "3120", "failed": "2", "not_evaluated": "48"} if has_new else {},
        failed_delivery_count=12 if number == 1 else 0,
    )
