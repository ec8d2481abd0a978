"""
# Nightly: from new raw data to published pages

Each night at 01:30 UTC, one run at a time: `ingest` → `process` → `checks` → `reports` → `publish` → `night`. Three of them
start Spark (`process`, `reports`, `publish`), one after the other. All can be run again at any time: what is done is not
done twice. A scheduled run takes in everything that is new, late windows of earlier days too, so a night that was missed
is made good by the next. A backfill takes in the windows of its own day only; `again` makes that day's tables again.

| task | what it does | when it fails |
| --- | --- | --- |
| `ingest` | imports traces from the inbox of the connection, where there is one | The error names the file. Mend it or take it out of the inbox, then clear the task. The night goes on without it. |
| `process` | raw data to tables, with checks; all or nothing for a window | The error is the command's own line. `tracelake doctor` on the lake's machine looks at Java, jars, credentials and the lease. After that clear the task: it goes on where it stopped. |
| `checks` | tells of failed checks, jobs that may not be published and findings | Only Airflow itself can fail it; clear it. |
| `reports` | pages of jobs that changed, of the days they touch, and the list | The error names the pages; the others are there and are published. Clear the task: it makes only what is missing. |
| `publish` | links and figures to trackers | A tracker that is down is no failure: it is tried again next night. A failure is a wrong setting, which the error names. |
| `night` | says that the night is whole; its asset `tracelake_night` starts what depends on it | Something before it failed. |

A day without data is a success; `process` says `Nothing new`. No connection, or one that lacks something: the task says
what to set. Parameters of a run started by hand: `day` (only windows of this UTC day), `again` (make its tables again).
"""  # noqa: E501 -- a table's row is one line

import os

from tracelake_dags.gate import refused


def nightly():
    import datetime as dt

    from airflow.sdk import DAG, Asset, Param, TriggerRule, task
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
    from airflow.timetables.interval import CronDataIntervalTimetable
    from tracelake_dags.findings import message_of
    from tracelake_dags.ingest import ingest as take_in
    from tracelake_dags.lake import CommandFailed, Unconfigured
    from tracelake_dags.tasks import LakeOperator, defaults, lake, last_task, told

    since = os.environ.get("TRACELAKE_NIGHTLY_SINCE")
    night = Asset("tracelake_night", uri="tracelake://night")
    day = "{{ '--day=' ~ (params.day or ds) if params.day or dag_run.run_type == 'backfill' else '' }}"
    with DAG(
        "nightly",
        doc_md=__doc__,
        schedule=CronDataIntervalTimetable(os.environ.get("TRACELAKE_NIGHTLY", "30 1 * * *"), "UTC"),
        start_date=dt.datetime.fromisoformat(since or "2026-01-01").replace(tzinfo=dt.timezone.utc),
        catchup=bool(since),
        max_active_runs=1,
        max_active_tasks=1,
        default_args=defaults(hours=2),
        params={
            "day": Param(
                "", type="string", pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="Only windows of this UTC day."
            ),
            "again": Param(False, type="boolean", description="Make the tables again, of `day` or the backfilled day."),
        },
        tags=["tracelake"],
    ) as dag:

        @task(retries=1)
        def ingest() -> int:
            try:
                return take_in(lake(), print)
            except Unconfigured as error:
                raise AirflowFailException(str(error)) from None
            except CommandFailed as error:
                raise AirflowException(str(error)) from None

        @task
        def checks(done: dict) -> int:
            message = message_of(done)
            print(message.title, message.text, sep="\n")
            return told(message) if message.lines else 0

        process = LakeOperator(
            task_id="process",
            command=["nightly", "--stage=run", "--json", day, "{{ '--again' if params.again else '' }}"],
            execution_timeout=dt.timedelta(hours=12),
            trigger_rule=TriggerRule.ALL_DONE,
        )
        reports = LakeOperator(
            task_id="reports", command=["nightly", "--stage=reports", "--json"], execution_timeout=dt.timedelta(hours=6)
        )
        publish = LakeOperator(
            task_id="publish",
            command=["nightly", "--stage=publish", "--json"],
            trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS,
        )
        inbox, told_of = ingest(), checks(process.output)
        inbox >> process
        told_of >> reports
        [told_of, reports] >> publish
        [inbox, told_of, reports, publish] >> last_task("night", [night])(reports.output)
    return dag


dag = refused("nightly", __doc__) or nightly()
