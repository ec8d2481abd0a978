"""The command line as a task starts it: the connection, the process and its end, the inbox."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tiny import write_trace
from tracelake_dags.ingest import ingest
from tracelake_dags.lake import CommandFailed, Lake, Running, Unconfigured

TRACELAKE = Path(sys.executable).with_name("tracelake")


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"comand": "x"}, "its extra has comand, and may have command, submit, lake, conf, inbox, env, notify"),
        ({"command": 3}, "command is neither text nor a list of words"),
        ({"command": "x", "lake": 3}, "lake is not text"),
        ({"command": "x", "notify": {"kind": "slack"}}, "notify is a list of objects with kind"),
    ],
)
def test_a_wrong_connection_is_one_line(extra: dict[str, Any], words: str) -> None:
    with pytest.raises(Unconfigured, match=words) as caught:
        Lake.from_extra(extra)
    assert str(caught.value).startswith("connection tracelake: ") and "\n" not in str(caught.value)


def test_the_command_of_each_kind() -> None:
    lake = Lake.from_extra({"command": ["/opt/my lake/tracelake"], "submit": "spark-submit --name 'a b' submit.py",
                            "lake": "s3://b/l", "conf": "", "env": None})  # fmt: skip
    assert lake.argv(["nightly", "", "--json"]) == [
        "spark-submit", "--name", "a b", "submit.py", "nightly", "--json", "--lake", "s3://b/l",
    ]  # fmt: skip
    assert lake.argv(["import", "--job=-j"], ["-x.json"], spark=False) == [
        "/opt/my lake/tracelake", "import", "--job=-j", "--lake", "s3://b/l", "--", "-x.json",
    ]  # fmt: skip
    with pytest.raises(Unconfigured, match="its extra lacks command"):
        Lake().argv(["maintain"])


def _shell(script: str, **env: str) -> Running:
    return Running(["/bin/sh", "-c", script], env)


def test_what_it_printed_is_the_log_and_its_json_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "secret")
    monkeypatch.setenv("PYTHONPATH", "airflow's")
    said: list[str] = []
    script = (
        """echo one; echo '{"windows": 1}'; echo "{no json" >&2; env | grep -c -E 'AIRFLOW|PYTHONPATH'; echo $OURS"""
    )
    assert _shell(script, OURS="ours").finish(said.append) == {"windows": 1}
    assert said == ["one", '{"windows": 1}', "{no json", "0", "ours"]
    assert _shell("echo nothing").finish(said.append) is None


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'tracelake: no lake here' >&2; echo later; exit 1", "ended with 1: no lake here"),
        (
            "echo 'Exception in thread \"main\" org.apache.spark.SparkException: Master must be'; seq 30; exit 1",
            "ended with 1: org.apache.spark.SparkException: Master must be",
        ),
        ("echo first; echo last; exit 3", "ended with 3: last"),
        (
            """echo '{"level": "error", "text": "no lake here"}'; echo '{"level": "info", "text": "end"}'; exit 1""",
            "ended with 1: no lake here",
        ),
        ("kill -9 $$", "was ended by signal 9: it printed nothing"),
    ],
)
def test_why_it_failed_comes_first(script: str, words: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        _shell(script).finish(lambda line: None)
    assert words in str(caught.value).splitlines()[0]


def test_it_ends_with_all_that_it_started(tmp_path: Path) -> None:
    running = _shell(f"sleep 600 & echo $! > {tmp_path / 'child'}; echo up; wait")

    class TimedOut(BaseException):
        """As Airflow ends a task that takes too long."""

    def end(line: str) -> None:
        raise TimedOut

    with pytest.raises(TimedOut):
        running.finish(end)
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 20
    while _alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"


def test_the_inbox_is_imported_once_and_what_is_refused_stays(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    good, bad, new = inbox / "my job" / "node0" / "a.json", inbox / "my job" / "b.json", inbox / "my job" / "new.json"
    write_trace(good)
    bad.write_text('{"hello": "world"}')
    new.write_text("{")
    os.utime(bad, (0, 0))
    lake = Lake.from_extra({"command": [str(TRACELAKE)], "lake": str(tmp_path / "lake"), "inbox": str(inbox)})
    said: list[str] = []
    with pytest.raises(CommandFailed, match=r"1 files of the inbox were refused.*b\.json: .*not a trace"):
        ingest(lake, said.append)
    assert "1 files imported" in said
    left = sorted(path.relative_to(inbox).as_posix() for path in inbox.rglob("*.json"))
    assert left == [".imported/my job/node0/a.json", "my job/b.json", "my job/new.json"]
    assert len(list((tmp_path / "lake" / "raw").rglob("manifest/**/*.json"))) == 1
    bad.unlink()
    assert ingest(lake, said.append) == 0
    assert ingest(Lake(), said.append) == 0 and said[-1].startswith("no inbox in the connection")
    with pytest.raises(Unconfigured, match="no folder that this worker sees"):
        ingest(Lake(inbox="s3://b/inbox"), said.append)
