"""Airflow as people run it, on loopback: API server, DAG processor, scheduler and triggerer as processes of their own.

with Airflow(tmp_path / "home", {"command": "…", "lake": "…"}) as airflow:
    airflow.backfill("nightly", "2026-11-01", "2026-11-03")
    runs = airflow.wait("nightly", 3)
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("TRACELAKE_AIRFLOW_PYTHON") or ROOT / "build" / "envs" / "airflow" / "bin" / "python")
_COMPONENTS = {
    "api": ("api-server", "--host", "127.0.0.1", "--port", "{port}"),
    "dags": ("dag-processor",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
_ENDED = ("success", "failed")


def airflow_python() -> str:
    if not PYTHON.exists():
        pytest.skip("no Airflow: `make build/envs/airflow/ready` installs it")
    return str(PYTHON)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(home: Path, **more: str) -> dict[str, str]:
    """Of a process with a home of its own; nothing of the machine's Airflow."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    ours = {
        "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "TRACELAKE_RETRY_SECONDS": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore", "no_proxy": "127.0.0.1",
    }  # fmt: skip
    return {**kept, **ours, **more}


class Airflow:
    """All components with one SQLite database; they end with the `with` block, and all that they started."""

    def __init__(self, home: Path, extra: Mapping[str, Any], **environ: str) -> None:
        self.python, self.home, self.port = airflow_python(), home, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._token = ""
        self._started: list[subprocess.Popen[bytes]] = []
        self.environ = environment(
            home,
            AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{self.url}/execution/",
            AIRFLOW__API__BASE_URL=self.url,
            AIRFLOW__API__WORKERS="1",
            AIRFLOW__API_AUTH__JWT_SECRET=secrets.token_hex(32),
            AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS="True",
            AIRFLOW__CORE__PARALLELISM="2",
            AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL="10",
            AIRFLOW_CONN_TRACELAKE=json.dumps({"conn_type": "generic", "extra": dict(extra)}),
            **environ,
        )

    def __enter__(self) -> Airflow:
        self.home.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(self._argv("db", "migrate"), env=self.environ, check=True, capture_output=True, timeout=300)
            for name in _COMPONENTS:
                self._start(name)
            self._until(self._healthy, 240, "Airflow does not get healthy")
            self._token = json.loads(self._ask("GET", "/auth/token"))["access_token"]
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _argv(self, *words: str) -> list[str]:
        return [self.python, "-m", "airflow", *(word.format(port=self.port) for word in words)]

    def _start(self, name: str) -> None:
        with (self.home / f"{name}.log").open("wb") as log:
            self._started.append(
                subprocess.Popen(
                    self._argv(*_COMPONENTS[name]), env=self.environ, stdout=log, stderr=log, start_new_session=True
                )
            )

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._started:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            for process in self._started:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(20)

    def _healthy(self) -> bool:
        with suppress(OSError):
            health = json.loads(self._ask("GET", "/api/v2/monitor/health"))
            return all(part["status"] == "healthy" for part in health.values())
        return False

    def _until(self, holds: Any, seconds: float, words: str) -> Any:
        """The first true answer of `holds`; fails with the components' logs."""
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            dead = [process for process in self._started if process.poll() is not None]
            assert not dead and time.monotonic() < deadline, f"{words}\n{self.logs()}"
            time.sleep(0.5)
        return found

    def logs(self) -> str:
        """The last lines of each component."""
        lines = {path: path.read_text(errors="replace").splitlines()[-15:] for path in self.home.glob("*.log")}
        return "\n".join(f"--- {path.name}\n" + "\n".join(last) for path, last in lines.items())

    def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """REST below /api/v2."""
        return json.loads(self._ask(method, f"/api/v2/{path}", body) or b"null")

    def unpause(self, dag_id: str) -> None:
        """As soon as the DAG is parsed. A scheduled DAG then starts a run for its latest interval."""
        self._until(lambda: dag_id in self.dags(), 120, f"no DAG {dag_id}")
        self.api("PATCH", f"dags/{dag_id}", {"is_paused": False})

    def dags(self) -> list[str]:
        return [each["dag_id"] for each in self.api("GET", "dags")["dags"]]

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None, logical_date: str | None = None) -> str:
        """Start a run; gives its id."""
        body = {"logical_date": logical_date, "conf": conf or {}}
        return str(self.api("POST", f"dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def clear(self, dag_id: str, run_id: str) -> None:
        """Have a run's tasks run again."""
        self.api("POST", f"dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id)}/clear", {"dry_run": False})

    def backfill(self, dag_id: str, first: str, last: str, conf: Mapping[str, Any] | None = None, *,
                 again: bool = False) -> None:  # fmt: skip
        """A run for each interval from one instant to another, one after the other; those that ran too, `again`."""
        asked = {
            "dag_id": dag_id, "from_date": first, "to_date": last, "max_active_runs": 1,
            "reprocess_behavior": "completed" if again else "none", "run_backwards": False, "dag_run_conf": conf or {},
        }  # fmt: skip

        def made() -> bool:
            try:
                return bool(self.api("POST", "backfills", asked))
            except AssertionError as error:
                # SQLite has one writer at a time, and Airflow gives up at once.
                if "Database is locked" in str(error):
                    return False
                raise

        self._until(made, 120, "no backfill")

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        found = self.api("GET", f"dags/{dag_id}/dagRuns?limit=100&order_by=run_after")
        return list(found["dag_runs"])

    def wait(self, dag_id: str, count: int, seconds: float = 300) -> list[dict[str, Any]]:
        """The runs of a DAG, once so many have ended."""

        def ended() -> list[dict[str, Any]]:
            runs = [run for run in self.runs(dag_id) if run["state"] in _ENDED]
            return runs if len(runs) >= count else []

        return list(self._until(ended, seconds, f"{dag_id} has fewer than {count} runs that ended"))

    def tasks(self, dag_id: str, run_id: str) -> dict[str, str]:
        """State of each task of a run."""
        found = self.api("GET", f"dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id)}/taskInstances")
        return {each["task_id"]: each["state"] for each in found["task_instances"]}

    def events(self) -> list[dict[str, Any]]:
        """Asset events, oldest first."""
        return list(self.api("GET", "assets/events?order_by=timestamp")["asset_events"])
