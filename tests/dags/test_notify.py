"""Notifiers, against real servers on loopback."""

from __future__ import annotations

import logging
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from airflow_real import free_port
from servers import Hook, MailServer
from tracelake_dags.findings import message_of
from tracelake_dags.notify import Message, tell

MESSAGE = Message("task_failed", "nightly.process failed", ("no lake\nhere", "run 1 <!channel>"), {"dag_id": "nightly"})


def test_a_webhook_gets_everything() -> None:
    with Hook() as hook:
        assert tell([{"kind": "webhook", "url": f"{hook.url}/x", "token": "secret"}], MESSAGE) == 1
    assert hook.headers["Authorization"] == "Bearer secret"
    assert hook.got["/x"] == [{
        "source": "tracelake", "kind": "task_failed", "title": "nightly.process failed",
        "lines": ["no lake\nhere", "run 1 <!channel>"], "details": {"dag_id": "nightly"},
        "text": "no lake\nhere\nrun 1 <!channel>",
    }]  # fmt: skip


def test_slack_gets_text_that_mentions_nobody() -> None:
    with Hook() as hook:
        assert tell([{"kind": "slack", "url": hook.url}], MESSAGE) == 1
    (told,) = hook.got.values()
    assert told == [{"text": "*nightly.process failed*\nno lake\nhere\nrun 1 &lt;!channel&gt;"}]


def test_a_mail_reaches_all(tmp_path: Path) -> None:
    hostile = Message("task_failed", "job a\r\nBcc: x@example.org failed", ("ä line",))
    with MailServer(tmp_path) as server:
        to = {"kind": "smtp", "host": "127.0.0.1", "port": server.port, "from": "lake@example.org"}
        assert tell([{**to, "to": ["a@example.org", "b@example.org"]}], hostile) == 1
        (mail,) = [message_from_bytes(text, policy=policy.default) for text in server.mails()]
    assert mail["Subject"] == "tracelake: job a Bcc: x@example.org failed"
    assert (mail["To"], mail["Bcc"]) == ("a@example.org, b@example.org", None)
    assert mail.get_content() == "ä line\n"


def test_one_that_is_down_or_wrong_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    closed = f"http://127.0.0.1:{free_port()}/secret"
    with Hook() as good, Hook(code=500) as bad, caplog.at_level(logging.ERROR):
        notifiers = [
            {"kind": "webhook", "url": closed}, {"kind": "webhook", "url": f"{bad.url}/secret"}, {"kind": "pager"},
            {"kind": "webhook"}, {"kind": "smtp", "host": "127.0.0.1", "port": free_port(), "from": "a", "to": "b"},
            {"kind": "slack", "url": "file:///etc/passwd"}, "nonsense", {"kind": "webhook", "url": f"{good.url}/good"},
        ]  # fmt: skip
        assert tell(notifiers, MESSAGE) == 1
    assert list(good.got) == ["/good"]
    said = caplog.text
    assert "secret" not in said
    for words in (
        "entry 1 (webhook): URLError",
        "entry 2 (webhook): HTTPError",
        "entry 3: kind 'pager'; there are webhook",
        "entry 4 (webhook): set 'url'",
        "entry 5 (smtp): ConnectionRefusedError",
        "entry 6 (slack): ValueError",
        "entry 7: kind None",
    ):
        assert words in said


def test_the_night_s_message_is_bounded_and_silent_where_all_is_well() -> None:
    assert message_of({"windows": 2, "jobs": ["a"]}).lines == ()
    check = {"table_name": "t", "check_id": "c", "outcome": "failed", "reason": None}
    checks = [{**check, "job_id": f"j{number}", "failing_count": number} for number in range(100)]
    message = message_of(
        {"day": "2026-11-01", "failed_checks": checks, "failed_check_count": 2500, "incomplete": "2 of 3"}
    )
    assert message.title == "night of 2026-11-01: 2,500 checks failed, input incomplete (0 windows, 0 jobs)"
    assert message.lines[0] == "check c of t failed for job j0, 0 rows"
    assert message.lines[-2:] == ("… and 2,490 more", "2 of 3")
    assert len(message.lines) == 12
