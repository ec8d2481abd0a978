"""
# Weekly upkeep of the lake

Sundays at 05:00 UTC: `maintain` (what is past its retention goes, small files become few, files that nobody reads are
removed), then `doctor`. It holds the lake's lease: a night that begins meanwhile waits.

| task | what it does | when it fails |
| --- | --- | --- |
| `maintain` | retention, compaction, VACUUM | The error names a wrong `[retention]`; else clear it. |
| `doctor` | looks at Java, jars, raw data, lease, tables, last run | Each `fail` line of its log says what to do. |
| `done` | says that all went well | Something before it failed. |
"""

import os

from tracelake_dags.gate import refused


def maintenance():
    import datetime as dt

    from airflow.sdk import DAG, TriggerRule
    from airflow.timetables.interval import CronDataIntervalTimetable
    from tracelake_dags.tasks import LakeOperator, defaults, last_task

    with DAG(
        "maintenance",
        doc_md=__doc__,
        schedule=CronDataIntervalTimetable(os.environ.get("TRACELAKE_MAINTENANCE", "0 5 * * 0"), "UTC"),
        start_date=dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
        catchup=False,
        max_active_runs=1,
        max_active_tasks=1,
        default_args=defaults(hours=12),
        tags=["tracelake"],
    ) as dag:
        maintain = LakeOperator(task_id="maintain", command=["maintain"])
        doctor = LakeOperator(task_id="doctor", command=["doctor"], trigger_rule=TriggerRule.ALL_DONE, retries=0)
        maintain >> doctor
        [maintain, doctor] >> last_task("done")(None)
    return dag


dag = refused("maintenance", __doc__) or maintenance()
