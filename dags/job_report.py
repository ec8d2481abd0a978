"""
# Page of one job, now

Makes and publishes the page of a job that has just ended or still runs, without waiting for the night. Started by hand with
the parameter `job`, or by an event of the asset `tracelake_job` with `{"job_id": "…"}` as its extra, which a scheduler's
epilogue or any other program posts to Airflow's API (`POST /api/v2/assets/events`). Events that come together make one run.
A page of a running job says that it is partial.

| task | what it does | when it fails |
| --- | --- | --- |
| `jobs` | reads the job from the parameter or the events | Neither names one: give `job`. |
| `report` | takes in what the job has new and writes its page, a job at a time | `no job …`: its recorder has delivered nothing yet, or the name is wrong. Anything else: as `process` of `nightly`. |
| `publish` | links and figures to trackers, of all that is due | A wrong setting, which the error names. |
| `done` | says that all is there | Something before it failed. |
"""  # noqa: E501 -- a table's row is one line

from tracelake_dags.gate import refused


def job_report():
    import datetime as dt

    from airflow.sdk import DAG, Asset, Param, TriggerRule, task
    from airflow.sdk.exceptions import AirflowFailException
    from tracelake_dags.tasks import LakeOperator, defaults, last_task

    job_asset = Asset("tracelake_job", uri="tracelake://job")
    with DAG(
        "job_report",
        doc_md=__doc__,
        schedule=[job_asset],
        start_date=dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
        catchup=False,
        max_active_runs=1,
        max_active_tasks=1,
        default_args=defaults(hours=2),
        params={"job": Param("", type="string", description="Job whose page is made.")},
        tags=["tracelake"],
    ) as dag:

        @task(retries=0)
        def jobs(params=None, triggering_asset_events=None) -> list[str]:
            events = (triggering_asset_events or {}).get(job_asset, [])
            named = [params["job"], *((event.extra or {}).get("job_id") for event in events)]
            found = list(dict.fromkeys(each for each in named if isinstance(each, str) and each.strip()))
            if not found:
                raise AirflowFailException('no job: give the parameter job, or an event with extra {"job_id": "…"}')
            return found

        found = jobs()
        report = LakeOperator.partial(
            task_id="report",
            command=["report"],
            max_active_tis_per_dag=1,
            map_index_template="{{ task.arguments }}",
        ).expand(arguments=found)
        publish = LakeOperator(
            task_id="publish",
            command=["nightly", "--stage=publish", "--json"],
            trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS,
        )
        report >> publish
        [found, report, publish] >> last_task("done")(None)
    return dag


dag = refused("job_report", __doc__) or job_report()
