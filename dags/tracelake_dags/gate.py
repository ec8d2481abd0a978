"""An Airflow that these DAGs cannot run on still parses them, and the one task says what to install."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

LEAST = (3, 3)
TESTED = "3.3.2"


def refused(dag_id: str, runbook: str | None, installed: str | None = None) -> Any:
    """None where Airflow is new enough; else a DAG whose only task fails with one line."""
    found = installed or _installed()
    if tuple(int(part) for part in found.split(".")[:2]) >= LEAST:
        return None
    import datetime as dt

    from airflow import DAG
    from airflow.models import BaseOperator

    words = f"Airflow {found} is too old for tracelake's DAGs: install {TESTED}, with dags/requirements.txt"

    class Refuse(BaseOperator):
        def execute(self, context: Any) -> None:
            raise RuntimeError(words)

    with DAG(
        dag_id,
        start_date=dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
        catchup=False,
        doc_md=f"{words}\n\n{runbook}",
    ) as dag:
        Refuse(task_id="airflow_is_too_old")
    return dag


def _installed() -> str:
    for name in ("apache-airflow-core", "apache-airflow"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "0.0"
