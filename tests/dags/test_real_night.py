"""A night of the real command line, played by Airflow: a trace in the inbox at first, its page at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from airflow_real import airflow_python, environment
from quick import CAUSES, QUICK_JVM, conf_without
from tiny import EVENTS, write_trace

PLAY = Path(__file__).with_name("play.py")
TRACELAKE = Path(sys.executable).with_name("tracelake")


@pytest.mark.full  # three cold starts of Spark; test_three_nights has one session for all
def test_from_the_inbox_to_the_page(tmp_path: Path) -> None:
    lake, inbox, conf = tmp_path / "lake", tmp_path / "inbox", tmp_path / "few.toml"
    conf.write_text(conf_without(*CAUSES))
    write_trace(inbox / "tiny" / "t.json")
    extra = {
        "command": str(TRACELAKE), "lake": str(lake), "conf": str(conf), "inbox": str(inbox),
        "env": {"SPARK_SUBMIT_OPTS": QUICK_JVM},
    }  # fmt: skip
    ran = subprocess.run(
        [airflow_python(), str(PLAY), json.dumps([{"dag": "nightly", "extra": extra}])],
        capture_output=True, text=True, env=environment(tmp_path / "home"),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    (night,) = json.loads(ran.stdout.splitlines()[-1])
    assert night["state"] == "success", ran.stdout[-5000:]
    results = {name: task["result"] for name, task in night["tasks"].items()}
    assert results["ingest"] == 1
    assert (results["process"]["windows"], results["process"]["jobs"]) == (1, ["tiny"])
    assert results["process"]["rows"]["stored"] == len(EVENTS)
    assert [Path(page).name for page in results["reports"]["pages"]] == ["job-tiny.html", "index.html"]
    assert "tiny" in (lake / "reports" / "job-tiny.html").read_text()
    assert results["publish"]["deliveries"]["failed"] == []
