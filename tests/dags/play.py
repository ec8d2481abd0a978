"""Runs in Airflow's environment: plays DAGs with `dag.test()` on SQLite and prints what became of each task.

python play.py '[{"dag": "nightly", "conf": {…}, "extra": {…} or null}, …]'   (the extra of the connection `tracelake`)
"""

import datetime as dt
import json
import os
import sys
from pathlib import Path

DAGS = Path(__file__).resolve().parents[2] / "dags"
sys.path.insert(0, str(DAGS))

from airflow.dag_processing.dagbag import DagBag  # noqa: E402
from airflow.utils.db import initdb  # noqa: E402


def play(number, scenario):
    os.environ.pop("AIRFLOW_CONN_TRACELAKE", None)
    if scenario["extra"] is not None:
        connection = {"conn_type": "generic", "extra": scenario["extra"]}
        os.environ["AIRFLOW_CONN_TRACELAKE"] = json.dumps(connection)
    when = dt.datetime(2026, 11, 1, 1, 30, tzinfo=dt.timezone.utc) + dt.timedelta(days=number)
    # A DAG keeps the parameters of its last test.
    dag = DagBag(DAGS, safe_mode=False).dags[scenario["dag"]]
    run = dag.test(logical_date=when, run_conf=scenario.get("conf"))
    tasks = {}
    for each in run.get_task_instances():
        name = each.task_id if each.map_index < 0 else f"{each.task_id}[{each.map_index}]"
        tasks[name] = {"state": str(each.state), "tries": each.try_number, "result": each.xcom_pull(each.task_id)}
    return {"state": str(run.state), "tasks": tasks}


if __name__ == "__main__":
    initdb()
    print(json.dumps([play(*each) for each in enumerate(json.loads(sys.argv[1]))], default=str))
