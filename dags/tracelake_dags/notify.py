"""Tells people: JSON to a webhook, Slack's format, mail. Standard library only.

Each entry of `notify` in the connection's extra is one of

    {"kind": "webhook", "url": "https://…", "token": "…"}
    {"kind": "slack", "url": "https://hooks.slack.com/…"}
    {"kind": "smtp", "host": "…", "port": 587, "from": "…", "to": ["…"], "user": "…", "password": "…", "starttls": true}

A notifier that is down never fails a task: the log says so. Addresses of webhooks are secrets, and not logged.
"""

from __future__ import annotations

import json
import logging
import smtplib
import ssl
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from email.message import EmailMessage
from typing import Any

log = logging.getLogger(__name__)
_SECONDS = 10
_MOST_LINES = 40


@dataclass(frozen=True)
class Message:
    """What is told: `kind` is task_failed or findings."""

    kind: str
    title: str
    lines: tuple[str, ...]
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        left = len(self.lines) - _MOST_LINES
        return "\n".join((*self.lines[:_MOST_LINES], *((f"… and {left:,} more lines",) if left > 0 else ())))


def tell(notifiers: Iterable[Mapping[str, Any]], message: Message) -> int:
    """Send to all; gives how many took it. Never raises."""
    sent = 0
    for number, each in enumerate(notifiers, 1):
        kind = each.get("kind") if isinstance(each, Mapping) else None
        if kind not in _SENDERS:
            log.error("notify, entry %d: kind %r; there are %s", number, kind, ", ".join(_SENDERS))
            continue
        try:
            _SENDERS[kind](each, message)
            sent += 1
        except KeyError as error:
            log.error("notify, entry %d (%s): set %s", number, kind, error)
        except Exception as error:  # noqa: BLE001 -- whatever a server does, the night goes on
            log.error("notify, entry %d (%s): %s: not told: %s", number, kind, type(error).__name__, message.title)
    return sent


def _webhook(to: Mapping[str, Any], message: Message) -> None:
    headers = {"Authorization": f"Bearer {to['token']}"} if to.get("token") else {}
    _post(to["url"], {"source": "tracelake", **asdict(message), "text": message.text}, headers)


def _slack(to: Mapping[str, Any], message: Message) -> None:
    _post(to["url"], {"text": f"*{_escaped(message.title)}*\n{_escaped(message.text)}"}, {})


def _escaped(text: str) -> str:
    """Slack's three: a job's name cannot mention a channel.

    >>> _escaped("<!channel> & co")
    '&lt;!channel&gt; &amp; co'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    if not url.startswith(("https://", "http://")):
        raise ValueError("not an http address")
    data = json.dumps(body, default=str).encode()
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(asked, timeout=_SECONDS) as answer:
        answer.read(1)


def _smtp(to: Mapping[str, Any], message: Message) -> None:
    mail = EmailMessage()
    # No line of a header may break: a job's name is anyone's text.
    mail["Subject"] = " ".join(f"tracelake: {message.title}".split())
    mail["From"] = to["from"]
    mail["To"] = ", ".join([to["to"]] if isinstance(to["to"], str) else to["to"])
    mail.set_content(message.text)
    with smtplib.SMTP(to["host"], int(to.get("port", 25)), timeout=_SECONDS) as server:
        if to.get("starttls"):
            server.starttls(context=ssl.create_default_context())
        if to.get("user"):
            server.login(to["user"], to["password"])
        server.send_message(mail)


_SENDERS: dict[str, Callable[[Mapping[str, Any], Message], None]] = {
    "webhook": _webhook,
    "slack": _slack,
    "smtp": _smtp,
}
